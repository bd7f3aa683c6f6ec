#!/usr/bin/env python3
"""Makes the covariance matrices in this folder from data sets that scikit-learn ships.

    python3 -m venv venv && venv/bin/pip install scikit-learn==1.9.1 && venv/bin/python make.py

No random numbers, and sums in float64 in a fixed order: the same files on every run (up to the last bits of a sum,
where another build of NumPy adds in another order). README.md says what the files hold.
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits

HERE = Path(__file__).resolve().parent

# The ridge, as a share of the mean variance: enough to make the matrices positive definite in float32, too little to
# show beside the data.
RIDGE = 1e-3


def covariance(samples: np.ndarray) -> np.ndarray:
    """The unbiased covariance of the rows of `samples`, in float64."""
    centred = samples - samples.mean(axis=0)
    return centred.T @ centred / (len(samples) - 1)


def with_ridge(matrix: np.ndarray) -> np.ndarray:
    """`matrix` + RIDGE · (mean of its diagonal) · identity."""
    n = len(matrix)
    return matrix + RIDGE * (np.trace(matrix) / n) * np.eye(n)


def per_class(samples: np.ndarray, classes: np.ndarray) -> list[np.ndarray]:
    """One covariance for each class, in the order of the classes."""
    return [covariance(samples[classes == label]) for label in np.unique(classes)]


def save(name: str, matrices: np.ndarray) -> None:
    """Writes float32, C order."""
    array = np.ascontiguousarray(matrices, dtype=np.float32)
    np.save(HERE / name, array)
    print(f"{name}: {array.shape} {array.dtype}")


def main() -> None:
    digits = load_digits()
    raw = per_class(digits.data, digits.target)
    save("digits_cov_64.npy", np.stack([with_ridge(matrix) for matrix in raw]))
    save("digits_cov_64_raw.npy", np.stack(raw))
    save("digits_cov_64_pooled.npy", with_ridge(covariance(digits.data)))

    # Features of very different sizes: standardised over all samples first, so that the matrices are comparable.
    cancer = load_breast_cancer()
    scaled = (cancer.data - cancer.data.mean(axis=0)) / cancer.data.std(axis=0, ddof=1)
    save("breast_cancer_cov_30.npy", np.stack([with_ridge(m) for m in per_class(scaled, cancer.target)]))


if __name__ == "__main__":
    main()
