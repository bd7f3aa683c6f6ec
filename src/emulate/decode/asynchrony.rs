//! Asynchronous copies, mbarriers, proxy fences and what belongs to clusters.

use super::words::{Ty, Words};
use super::{Decoder, Fault};
use crate::emulate::program::{AsyncOp, MemorySpace, Op, Phase, SharedAddress, Slot};
use crate::ptx::model::{Immediate, Operand};

impl Decoder {
    fn shared_place(&mut self, words: &mut Words, operand: &Operand) -> Result<SharedAddress, Fault> {
        let (address, generic) = self.shared_operand(words, operand)?;
        Ok(SharedAddress { address, generic })
    }

    fn number(&self, operands: &[Operand]) -> Result<usize, Fault> {
        match operands {
            [Operand::Immediate(Immediate::Int(value))] => Ok(usize::try_from(*value).unwrap_or(0)),
            _ => self.refuse("expected a number"),
        }
    }

    fn unknown_async<T>(&self, words: &Words) -> Result<T, Fault> {
        self.refuse(format!("the emulator does not know `{}`", words.mnemonic()))
    }

    pub(super) fn copy_async(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        self.is_asynchronous = true;
        if !words.take("async") {
            return self.unknown_async(words);
        }
        let what = words.one_of(&[
            "bulk",
            "commit_group",
            "wait_group",
            "wait_all",
            "mbarrier::arrive",
            "mbarrier::arrive::noinc",
            "mbarrier",
        ]);
        let op = match what {
            None => {
                words.one_of(&["ca", "cg"]);
                words.take_all(|word| word.starts_with("L2::"));
                let Some(to_space) = words.one_of(&["shared", "shared::cta"]) else { return self.unknown_async(words) };
                debug_assert!(to_space.starts_with("shared"));
                words.take("global");
                let [to, from, Operand::Immediate(Immediate::Int(size)), rest @ ..] = operands else {
                    return self.refuse("expected a destination, a source and a number of bytes");
                };
                if !matches!(size, 4 | 8 | 16) {
                    return self.refuse(format!("{size} bytes: a copy has 4, 8 or 16"));
                }
                let to = SharedAddress { address: self.address(to, MemorySpace::Shared)?, generic: false };
                let from = self.address(from, MemorySpace::Global)?;
                let (mut read, mut ignore) = (None, None);
                if let Some(operand) = rest.first() {
                    match self.predicate(operand) {
                        Ok(predicate) => ignore = Some(predicate),
                        Err(_) => read = Some(self.narrow(operand, Ty::U(32))?),
                    }
                }
                AsyncOp::Copy { to, from, size: *size as u64, read, ignore }
            }
            Some("commit_group") => AsyncOp::CopyCommit,
            Some("wait_group") => AsyncOp::CopyWait { left: Some(self.number(operands)?) },
            Some("wait_all") => AsyncOp::CopyWait { left: None },
            Some("bulk") => return self.copy_bulk(words, operands),
            Some(_) => {
                words.take("arrive");
                let counted = !words.take("noinc");
                words.take("b64");
                let [barrier] = self.exactly::<1>(operands)?;
                AsyncOp::CopyArrive { to: self.shared_place(words, barrier)?, counted }
            }
        };
        Ok(Op::Async(Box::new(op)))
    }

    pub(super) fn mbarrier(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        self.is_asynchronous = true;
        let what = words.one_of(&[
            "init",
            "inval",
            "arrive",
            "arrive_drop",
            "expect_tx",
            "complete_tx",
            "test_wait",
            "try_wait",
            "pending_count",
        ]);
        // Scopes change nothing here; the orders do.
        words.take_all(|word| matches!(word, "cta" | "cluster" | "b64"));
        let relaxed = words.take("relaxed");
        words.one_of(&["release", "acquire"]);
        let op = match what {
            Some("init") => {
                let [barrier, count] = self.exactly::<2>(operands)?;
                AsyncOp::Init { barrier: self.shared_place(words, barrier)?, count: self.narrow(count, Ty::U(32))? }
            }
            Some("inval") => {
                let [barrier] = self.exactly::<1>(operands)?;
                AsyncOp::Invalidate { barrier: self.shared_place(words, barrier)? }
            }
            Some(what @ ("arrive" | "arrive_drop")) => self.arrive(what == "arrive_drop", relaxed, words, operands)?,
            Some("expect_tx") => {
                let [barrier, bytes] = self.exactly::<2>(operands)?;
                AsyncOp::Arrive {
                    barrier: self.shared_place(words, barrier)?,
                    token: None,
                    count: None,
                    bytes: Some(self.narrow(bytes, Ty::U(32))?),
                    drop: false,
                    release: false,
                    arrives: false,
                }
            }
            Some("complete_tx") => {
                let [barrier, bytes] = self.exactly::<2>(operands)?;
                AsyncOp::CompleteBytes {
                    barrier: self.shared_place(words, barrier)?,
                    bytes: self.narrow(bytes, Ty::U(32))?,
                }
            }
            Some("test_wait" | "try_wait") => {
                let parity = words.take("parity");
                let ([done, barrier, phase] | [done, barrier, phase, _]) = operands else {
                    return self.refuse("expected a predicate, an mbarrier and a phase");
                };
                let Some(done) = self.predicate_dst(done)? else { return self.refuse("expected a predicate") };
                AsyncOp::Test {
                    done,
                    barrier: self.shared_place(words, barrier)?,
                    phase: if parity {
                        Phase::Parity(self.narrow(phase, Ty::U(32))?)
                    } else {
                        Phase::Token(self.wide(phase, Ty::B(64))?)
                    },
                    acquire: !relaxed,
                }
            }
            Some("pending_count") => {
                let [dst, token] = self.exactly::<2>(operands)?;
                AsyncOp::PendingCount { dst: self.narrow_dst(dst, 32)?, token: self.wide(token, Ty::B(64))? }
            }
            _ => return self.unknown_async(words),
        };
        Ok(Op::Async(Box::new(op)))
    }

    fn arrive(&mut self, drop: bool, relaxed: bool, words: &mut Words, operands: &[Operand]) -> Result<AsyncOp, Fault> {
        let expects = words.take("expect_tx");
        if words.take("noComplete") && expects {
            return self.unknown_async(words);
        }
        // The token comes first, but for another CTA's mbarrier, which gives none.
        let (token, rest): (Option<Slot>, &[Operand]) = match operands {
            [Operand::Address { .. }, ..] => (None, operands),
            [Operand::Sink, rest @ ..] => (None, rest),
            [token, rest @ ..] => (Some(self.wide_dst(token)?), rest),
            [] => return self.refuse("expected an mbarrier"),
        };
        let (barrier, number) = match rest {
            [barrier] if !expects => (barrier, None),
            [barrier, number] => (barrier, Some(self.narrow(number, Ty::U(32))?)),
            _ => return self.refuse("expected an mbarrier, and perhaps a number"),
        };
        let (count, bytes) = if expects { (None, number) } else { (number, None) };
        let barrier = self.shared_place(words, barrier)?;
        Ok(AsyncOp::Arrive { barrier, token, count, bytes, drop, release: !relaxed, arrives: true })
    }

    /// Fences: that between the proxies has an effect on the checks; the others change nothing where every store is seen at
    /// once.
    pub(super) fn fence(&mut self, words: &mut Words) -> Op {
        let proxy = words.find(|word| word.starts_with("proxy").then_some(()));
        let asynchronous = words.find(|word| (word == "async" || word.starts_with("async")).then_some(()));
        let elsewhere = words.take("global");
        words.take_all(|_| true);
        // Global memory is not looked at for the order of proxies.
        if elsewhere {
            return Op::Nothing;
        }
        if proxy.is_some() && asynchronous.is_some() || words.mnemonic().contains("proxy::async") {
            self.is_asynchronous = true;
            return Op::Async(Box::new(AsyncOp::ProxyFence));
        }
        Op::Nothing
    }

    pub(super) fn barrier_cluster(&mut self, kind: Option<&str>, words: &mut Words) -> Result<Op, Fault> {
        let relaxed = words.take("relaxed");
        words.one_of(&["release", "acquire"]);
        let op = match kind {
            Some("arrive") => AsyncOp::ClusterArrive { release: !relaxed },
            Some("wait") => AsyncOp::ClusterWait { acquire: true },
            _ => return self.unknown_async(words),
        };
        Ok(Op::Async(Box::new(op)))
    }
}
