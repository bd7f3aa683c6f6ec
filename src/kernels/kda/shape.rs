//! The shape of a solve, and what holds of it.

use super::{CHUNK, Error, SUB_CHUNK};

/// The most elements that a buffer may span: byte offsets stay within `i64`.
const MAX_ELEMENTS: usize = (i64::MAX / 8) as usize;
/// The most tokens of a sequence: token numbers are 32-bit, and a chunk may begin at any of them.
const MAX_TOKENS: usize = i32::MAX as usize - CHUNK;
/// The most heads.
const MAX_HEADS: usize = 4096;
/// The most channels of a key.
const MAX_KEY_DIM: usize = 256;
/// The most programs along the grid's second axis.
const MAX_BATCH_HEADS: usize = 65_535;

/// How the tokens are split into sequences.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Sequences {
    /// `batch` sequences of `tokens` tokens each: arrays \[batch, tokens, …\].
    Fixed {
        /// Sequences.
        batch: usize,
        /// Tokens of each.
        tokens: usize,
    },
    /// Sequences of different lengths, one after the other: arrays \[1, all tokens, …\]. Sequence i has the tokens from `cu_seqlens[i]`
    /// to `cu_seqlens[i + 1]`; the first number is 0, and none is less than the one before. A sequence may be empty.
    Packed {
        /// Where each sequence begins, and where the last one ends.
        cu_seqlens: Vec<i64>,
    },
}

/// The shape of a solve: tokens, heads, channels. All arrays are contiguous.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The sequences.
    pub sequences: Sequences,
    /// Heads of q and k (H).
    pub heads: usize,
    /// Heads of the values, gates and β (HV): a multiple of `heads`. Value head j takes q and k of head j / (HV / H).
    pub value_heads: usize,
    /// Channels of a key (K): a multiple of 16, 256 at most.
    pub key_dim: usize,
}

impl Shape {
    /// `batch` sequences of `tokens` tokens, with as many heads of the values as of the keys.
    pub fn fixed(batch: usize, tokens: usize, heads: usize, key_dim: usize) -> Self {
        Self { sequences: Sequences::Fixed { batch, tokens }, heads, value_heads: heads, key_dim }
    }

    /// Sequences that are packed one after the other, with as many heads of the values as of the keys.
    ///
    /// ```
    /// use tilewright::kernels::kda::Shape;
    ///
    /// // Three sequences, of 5, 0 and 100 tokens: one chunk and two.
    /// let shape = Shape::packed(&[0, 5, 5, 105], 4, 128);
    /// assert_eq!((shape.tokens(), shape.chunks().len()), (105, 3));
    /// ```
    pub fn packed(cu_seqlens: &[i64], heads: usize, key_dim: usize) -> Self {
        let sequences = Sequences::Packed { cu_seqlens: cu_seqlens.to_vec() };
        Self { sequences, heads, value_heads: heads, key_dim }
    }

    /// The same with `value_heads` heads of the values, gates and β.
    #[must_use]
    pub fn grouped(self, value_heads: usize) -> Self {
        Self { value_heads, ..self }
    }

    /// All tokens: batch·tokens, or where the last packed sequence ends. (0 for a shape that breaks a rule.)
    pub fn tokens(&self) -> usize {
        match &self.sequences {
            Sequences::Fixed { batch, tokens } => batch.saturating_mul(*tokens),
            Sequences::Packed { cu_seqlens } => {
                cu_seqlens.last().and_then(|&end| usize::try_from(end).ok()).unwrap_or(0)
            }
        }
    }

    /// The first token and the number of tokens of each sequence, in all tokens.
    pub fn spans(&self) -> Vec<(usize, usize)> {
        match &self.sequences {
            Sequences::Fixed { batch, tokens } => (0..*batch).map(|index| (index * tokens, *tokens)).collect(),
            Sequences::Packed { cu_seqlens } => {
                cu_seqlens.windows(2).map(|pair| (pair[0] as usize, (pair[1] - pair[0]).max(0) as usize)).collect()
            }
        }
    }

    /// The chunks: sequence, and chunk inside it. A chunk never crosses a sequence's end; the last of a sequence may be partial.
    pub fn chunks(&self) -> Vec<(usize, usize)> {
        let spans = self.spans();
        let of = |(sequence, &(_, tokens)): (usize, &(usize, usize))| {
            (0..tokens.div_ceil(CHUNK)).map(move |chunk| (sequence, chunk))
        };
        spans.iter().enumerate().flat_map(of).collect()
    }

    /// Elements of q and of k: tokens·H·K.
    pub fn elements_qk(&self) -> usize {
        self.tokens() * self.heads * self.key_dim
    }

    /// Elements of the gates: tokens·HV·K.
    pub fn elements_g(&self) -> usize {
        self.tokens() * self.value_heads * self.key_dim
    }

    /// Elements of β: tokens·HV.
    pub fn elements_beta(&self) -> usize {
        self.tokens() * self.value_heads
    }

    /// Elements of the diagonal blocks: tokens·HV·16.
    pub fn elements_diagonal(&self) -> usize {
        self.tokens() * self.value_heads * SUB_CHUNK
    }

    /// Elements of Aqk and of Akk: tokens·HV·64.
    pub fn elements_out(&self) -> usize {
        self.tokens() * self.value_heads * CHUNK
    }

    /// Checks all that must hold before a plan is made.
    pub(super) fn check(&self) -> Result<(), Error> {
        let within = |field: &str, value: usize, low: usize, high: usize| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            wrong(field, value, format!("it must be from {low} to {high}"))
        };
        within("heads", self.heads, 1, MAX_HEADS)?;
        within("value_heads", self.value_heads, 1, MAX_HEADS)?;
        if !self.value_heads.is_multiple_of(self.heads) {
            return wrong("value_heads", self.value_heads, format!("it must be a multiple of heads, {}", self.heads));
        }
        within("key_dim", self.key_dim, 16, MAX_KEY_DIM)?;
        if !self.key_dim.is_multiple_of(16) {
            return wrong("key_dim", self.key_dim, "it must be a multiple of 16".to_owned());
        }
        match &self.sequences {
            Sequences::Fixed { batch, tokens } => {
                within("tokens", *tokens, 0, MAX_TOKENS)?;
                let most = MAX_BATCH_HEADS / self.value_heads;
                if *batch > most {
                    let rule = format!("with value_heads = {} it must be at most {most}", self.value_heads);
                    return wrong("batch", *batch, rule);
                }
            }
            Sequences::Packed { cu_seqlens } => check_packed(cu_seqlens)?,
        }
        let widest = self.value_heads * self.key_dim.max(CHUNK);
        if self.tokens() > MAX_ELEMENTS / widest {
            let rule = format!("an array of {widest} elements a token would have more than {MAX_ELEMENTS} elements");
            return wrong("tokens in all", self.tokens(), rule);
        }
        Ok(())
    }
}

fn check_packed(cu_seqlens: &[i64]) -> Result<(), Error> {
    let at = |index: usize, rule: String| wrong(&format!("cu_seqlens[{index}]"), cu_seqlens[index], rule);
    match cu_seqlens {
        [] => return wrong("cu_seqlens", "empty", "it must have one number more than there are sequences".to_owned()),
        [0, ..] => {}
        _ => return at(0, "it must be 0".to_owned()),
    }
    for (index, pair) in cu_seqlens.windows(2).enumerate() {
        if pair[1] < pair[0] {
            return at(index + 1, format!("it must not be less than the number before it, {}", pair[0]));
        }
        if pair[1].abs_diff(pair[0]) > MAX_TOKENS as u64 {
            return at(index + 1, format!("the sequence has more than {MAX_TOKENS} tokens"));
        }
    }
    let chunks: u64 =
        cu_seqlens.windows(2).map(|pair| pair[1].abs_diff(pair[0]).div_ceil(CHUNK as u64)).fold(0, u64::saturating_add);
    if chunks > MAX_TOKENS as u64 {
        return wrong("chunks", chunks, format!("there must be at most {MAX_TOKENS}"));
    }
    Ok(())
}

fn wrong(field: &str, value: impl ToString, rule: String) -> Result<(), Error> {
    Err(Error::Shape { field: field.to_owned(), value: value.to_string(), rule })
}
