//! The intra-chunk solve of Kimi Delta Attention for packed sequences, on a GPU where there is one and on the emulator elsewhere:
//! `cargo run --release --example kda`.

use half::bf16;
use tilewright::device::{self, Buffer, Device};
use tilewright::kernels::kda::{CHUNK, Host, Inputs, IntraSolve, Options, SUB_CHUNK, Shape, reference};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (device, why) = device::best()?;
    println!("{} ({why})", device.properties().name);

    // Three sequences of 100, 7 and 64 tokens; two heads of q and k, four of the values.
    let shape = Shape::packed(&[0, 100, 107, 171], 2, 64).grouped(4);
    let solve = IntraSolve::plan(shape.clone(), &Options::for_device(&device))?;
    print!("{}", solve.launches());

    // Some numbers: keys about as long as a model's, gates that fall from each chunk's first token on.
    let wave = |at: usize, speed: f32| (at as f32 * speed).sin() / 6.0;
    let q: Vec<bf16> = (0..shape.elements_qk()).map(|at| bf16::from_f32(wave(at, 0.7))).collect();
    let k: Vec<bf16> = (0..shape.elements_qk()).map(|at| bf16::from_f32(wave(at, 1.3))).collect();
    let beta: Vec<f32> = (0..shape.elements_beta()).map(|at| 0.5 + wave(at, 0.1)).collect();
    let mut g = vec![0.0; shape.elements_g()];
    let pitch = shape.value_heads * shape.key_dim;
    for (first, tokens) in shape.spans() {
        for token in 0..tokens {
            let row = (first + token) * pitch;
            g[row..row + pitch].fill(-0.05 * (token % CHUNK) as f32);
        }
    }

    // The diagonal blocks of A, which a kernel before this one makes; here the reference does.
    let [wide_q, wide_k] = [&q, &k].map(|values| values.iter().map(|value| value.to_f32()).collect::<Vec<f32>>());
    let scale = (shape.key_dim as f32).sqrt().recip();
    let right = reference(&shape, scale, &Host { q: &wide_q, k: &wide_k, g: &g, beta: &beta })?;
    let diagonal: Vec<f32> = right.diagonal.iter().map(|&value| value as f32).collect();

    let q = Buffer::from_slice(&device, &q, "q")?;
    let k = Buffer::from_slice(&device, &k, "k")?;
    let g = Buffer::from_slice(&device, &g, "g")?;
    let beta = Buffer::from_slice(&device, &beta, "beta")?;
    let diagonal = Buffer::from_slice(&device, &diagonal, "diagonal")?;
    let mut aqk = Buffer::zeroed(&device, shape.elements_out(), "Aqk")?;
    // The blocks above the diagonal are not written: zeroed once, they stay zero.
    let mut akk = Buffer::<bf16>::zeroed(&device, shape.elements_out(), "Akk")?;
    let chunks = solve.chunk_list(&device)?;
    let inputs = Inputs { q: &q, k: &k, g: &g, beta: &beta, diagonal: &diagonal, chunks: chunks.as_ref() };
    solve.solve(&device, &inputs, &mut aqk, &mut akk)?;

    let (mut error, mut size) = (0.0, 0.0);
    for (found, right) in akk.to_vec()?.into_iter().zip(&right.akk) {
        error += (found.to_f64() - right).powi(2);
        size += right.powi(2);
    }
    println!("{} chunks of {CHUNK} tokens in blocks of {SUB_CHUNK}", shape.chunks().len());
    println!("relative RMS error of the inverses: {:.1e}", f64::sqrt(error / size));
    Ok(())
}
