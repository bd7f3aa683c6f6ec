//! What the lanes of a warp do together: shuffles, votes, matches, reductions, elections, `bar.warp.sync`.

use super::warp::Warp;
use super::{FaultKind, Run, trouble};
use crate::emulate::lanes::{FULL, LANES, lanes};
use crate::emulate::program::{Op, Reg, ShuffleMode, Slot, VoteMode};

impl Warp {
    pub(super) fn collective(&mut self, op: &Op, active: u32, check: bool) -> Run<()> {
        match op {
            Op::Shuffle { mode, dst, valid, src, lane, clamp, members } => {
                let groups = self.members(*members, active, self.alive, check)?;
                let (values, defined) = self.carry32(*src);
                let values = *values;
                let (by, clamp) = (*self.read32(*lane, active)?, *self.read32(*clamp, active)?);
                let mut out = [0; LANES];
                let (mut inside, mut out_defined) = (0, 0);
                for group in groups {
                    for lane in lanes(group) {
                        let (from, valid) = shuffle_source(*mode, lane as u32, by[lane] & 0x1f, clamp[lane]);
                        // From a lane that is not here, or shuffles by another mask, comes nothing defined.
                        out[lane] = values[from as usize];
                        out_defined |= ((defined & group) >> from & 1) << lane;
                        inside |= u32::from(valid) << lane;
                    }
                }
                self.write32(*dst, &out, active);
                self.define32(*dst, out_defined, active);
                if let Some(valid) = valid {
                    self.write_predicate(*valid, inside, active);
                }
            }
            Op::Vote { mode, dst, src, members } => {
                let groups = self.members(*members, active, self.alive, check)?;
                let holds = self.predicate(*src, active)?;
                for group in groups {
                    let held = holds & group;
                    let value = match mode {
                        VoteMode::Ballot => {
                            self.write(*dst, &[held.into(); LANES], group);
                            continue;
                        }
                        VoteMode::All => held == group,
                        VoteMode::Any => held != 0,
                        VoteMode::Uniform => held == 0 || held == group,
                    };
                    if let Reg::Pred(slot) = dst {
                        self.write_predicate(*slot, if value { FULL } else { 0 }, group);
                    }
                }
            }
            Op::Match { all, dst, valid, src, members } => {
                let groups = self.members(*members, active, self.alive, check)?;
                let values = self.read(*src, active)?;
                for group in groups {
                    let equal = |lane: usize| {
                        lanes(group)
                            .filter(|&other| values[other] == values[lane])
                            .fold(0, |mask, other| mask | 1 << other)
                    };
                    let mut out = [0; LANES];
                    for lane in lanes(group) {
                        let mask = equal(lane);
                        out[lane] = if *all && mask != group { 0 } else { mask };
                    }
                    self.write32(*dst, &out, group);
                    if let Some(valid) = valid {
                        let agreed = lanes(group).all(|lane| out[lane] == group);
                        self.write_predicate(*valid, if agreed { FULL } else { 0 }, group);
                    }
                }
            }
            Op::Reduce { apply, dst, src, members } => {
                let groups = self.members(*members, active, self.alive, check)?;
                let values = *self.read32(*src, active)?;
                for group in groups {
                    let result = lanes(group).map(|lane| values[lane]).reduce(apply).unwrap_or_default();
                    self.write32(*dst, &[result; LANES], group);
                }
            }
            Op::Elect { dst, chosen, members } => {
                for group in self.members(*members, active, self.threads, check)? {
                    let leader = group.trailing_zeros() % 32;
                    if let Some(dst) = dst {
                        self.write32(*dst, &[leader; LANES], group);
                    }
                    self.write_predicate(*chosen, 1 << leader, group);
                }
            }
            Op::ActiveMask { dst } => self.write32(*dst, &[active; LANES], active),
            Op::WarpSync { members } => {
                self.members(*members, active, self.threads, check)?;
                self.order.synced = self.order.clock;
                self.order.clock += 1;
            }
            _ => {}
        }
        Ok(())
    }

    /// The groups of a warp-wide instruction: the active lanes with the same member mask, which act together. Every member
    /// among `awaited` must be here, and every lane must be a member of its own mask.
    fn members(&self, slot: Slot, active: u32, awaited: u32, check: bool) -> Run<Vec<u32>> {
        let masks = self.read32(slot, active)?;
        let mut groups = Vec::with_capacity(1);
        let mut rest = active;
        while rest != 0 {
            let first = rest.trailing_zeros() as usize;
            let group =
                lanes(rest).filter(|&lane| masks[lane] == masks[first]).fold(0, |group, lane| group | 1 << lane);
            rest &= !group;
            groups.push(group);
            let members = masks[first] & awaited;
            let (outside, missing) = (group & !masks[first], members & !group);
            if !check {
                continue;
            }
            if outside != 0 {
                let message = format!("the member mask {:#010x} leaves out the lane itself", masks[first]);
                return trouble(FaultKind::Sync, outside.trailing_zeros() as usize, message);
            }
            if missing != 0 {
                let other = missing.trailing_zeros();
                let how = if self.alive >> other & 1 == 0 {
                    "has returned"
                } else if active >> other & 1 == 1 {
                    "names other members"
                } else {
                    "went another way"
                };
                let message = format!("the member mask {:#010x} names lane {other}, which {how}", masks[first]);
                return trouble(FaultKind::Sync, first, message);
            }
        }
        Ok(groups)
    }
}

/// The lane that a shuffle reads from, and whether it is inside the segment; the lane itself where it is not.
fn shuffle_source(mode: ShuffleMode, lane: u32, by: u32, control: u32) -> (u32, bool) {
    let (clamp, segment) = (control & 0x1f, control >> 8 & 0x1f);
    let low = lane & segment;
    let high = low | clamp & !segment;
    let (from, valid) = match mode {
        ShuffleMode::Up => {
            let from = lane as i32 - by as i32;
            (from, from >= high as i32)
        }
        ShuffleMode::Down => {
            let from = lane + by;
            (from as i32, from <= high)
        }
        ShuffleMode::Butterfly => {
            let from = lane ^ by;
            (from as i32, from <= high)
        }
        ShuffleMode::Index => {
            let from = low | by & !segment & 0x1f;
            (from as i32, from <= high)
        }
    };
    if valid { (from as u32 & 0x1f, true) } else { (lane, false) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffles_stay_in_their_segment() {
        assert_eq!(shuffle_source(ShuffleMode::Index, 7, 3, 31), (3, true));
        assert_eq!(shuffle_source(ShuffleMode::Up, 2, 3, 0), (2, false));
        assert_eq!(shuffle_source(ShuffleMode::Up, 5, 3, 0), (2, true));
        assert_eq!(shuffle_source(ShuffleMode::Down, 30, 1, 31), (31, true));
        assert_eq!(shuffle_source(ShuffleMode::Down, 31, 1, 31), (31, false));
        assert_eq!(shuffle_source(ShuffleMode::Butterfly, 5, 16, 31), (21, true));
        // Segments of eight lanes: mask 0b11000.
        assert_eq!(shuffle_source(ShuffleMode::Index, 13, 1, 0x1807 | 0x18 << 8), (9, true));
        assert_eq!(shuffle_source(ShuffleMode::Down, 15, 1, 0x18 << 8 | 7), (15, false));
    }
}
