//! Where diverged paths meet again: the immediate post-dominator of every branch.
//!
//! A block post-dominates another if every path from the other to the end goes through it; the nearest such block is where
//! the lanes of a warp that took different ways can go on together. The algorithm is Cooper, Harvey and Kennedy's ("A
//! simple, fast dominance algorithm") on the reversed graph.

use super::program::{Instruction, Op};

/// For each instruction that may diverge, the instruction where its paths meet; `usize::MAX` where they meet only at
/// the end, and for instructions that do not diverge.
pub(super) fn joins(instructions: &[Instruction]) -> Vec<usize> {
    let (starts, block_of) = blocks(instructions);
    let count = starts.len();
    let end = count;
    let successors: Vec<Vec<usize>> = (0..count)
        .map(|block| {
            let last = starts.get(block + 1).copied().unwrap_or(instructions.len()) - 1;
            next(instructions, last).into_iter().map(|to| block_of.get(to).copied().unwrap_or(end)).collect()
        })
        .collect();
    let successors = without_early_ends(successors, end);
    let post = post_dominators(&successors);
    let mut joins = vec![usize::MAX; instructions.len()];
    for (at, join) in joins.iter_mut().enumerate() {
        let diverges = match instructions[at].op {
            Op::Branch { .. } => instructions[at].guard.is_some(),
            Op::BranchIndexed { .. } => true,
            _ => false,
        };
        if diverges && let Some(&start) = post[block_of[at]].and_then(|block| starts.get(block)) {
            *join = start;
        }
    }
    joins
}

/// Takes away every way to the end but that of the last block that has one: a lane that returns early does not meet the
/// others anywhere, so it has no say in where they meet.
fn without_early_ends(mut successors: Vec<Vec<usize>>, end: usize) -> Vec<Vec<usize>> {
    let mut reached = vec![false; end];
    let mut stack = vec![0];
    while let Some(block) = stack.pop() {
        if block < end && !std::mem::replace(&mut reached[block], true) {
            stack.extend(&successors[block]);
        }
    }
    let last = (0..end).rev().find(|&block| reached[block] && successors[block].contains(&end));
    for (block, to) in successors.iter_mut().enumerate() {
        if Some(block) != last {
            to.retain(|&to| to != end);
        }
    }
    successors
}

/// Where control may go after `at`; a number past the end is the exit.
fn next(instructions: &[Instruction], at: usize) -> Vec<usize> {
    let mut to = match &instructions[at].op {
        Op::Branch { target } => vec![*target],
        Op::BranchIndexed { targets, .. } => targets.clone(),
        Op::Exit | Op::Trap => vec![instructions.len()],
        _ => return vec![at + 1],
    };
    if instructions[at].guard.is_some() {
        to.push(at + 1);
    }
    to
}

/// The first instruction of each block, and the block of each instruction.
fn blocks(instructions: &[Instruction]) -> (Vec<usize>, Vec<usize>) {
    let mut leads = vec![false; instructions.len()];
    if let Some(first) = leads.first_mut() {
        *first = true;
    }
    for (at, instruction) in instructions.iter().enumerate() {
        if !matches!(instruction.op, Op::Branch { .. } | Op::BranchIndexed { .. } | Op::Exit | Op::Trap) {
            continue;
        }
        for to in next(instructions, at).into_iter().chain([at + 1]) {
            if let Some(lead) = leads.get_mut(to) {
                *lead = true;
            }
        }
    }
    let starts: Vec<usize> = (0..instructions.len()).filter(|&at| leads[at]).collect();
    let mut block_of = Vec::with_capacity(instructions.len());
    let mut block = 0;
    for (at, &lead) in leads.iter().enumerate() {
        block += usize::from(lead && at > 0);
        block_of.push(block);
    }
    (starts, block_of)
}

/// The immediate post-dominator of each block; `successors.len()` is the exit, `None` a block that cannot reach it.
fn post_dominators(successors: &[Vec<usize>]) -> Vec<Option<usize>> {
    let end = successors.len();
    let mut predecessors = vec![Vec::new(); end + 1];
    for (block, to) in successors.iter().enumerate() {
        for &to in to {
            predecessors[to].push(block);
        }
    }
    // Post-order of the reversed graph from the exit.
    let mut order = Vec::with_capacity(end + 1);
    let mut seen = vec![false; end + 1];
    let mut stack = vec![(end, 0)];
    seen[end] = true;
    while let Some((block, child)) = stack.pop() {
        match predecessors[block].get(child) {
            Some(&next) => {
                stack.push((block, child + 1));
                if !seen[next] {
                    seen[next] = true;
                    stack.push((next, 0));
                }
            }
            None => order.push(block),
        }
    }
    let mut number = vec![usize::MAX; end + 1];
    for (place, &block) in order.iter().enumerate() {
        number[block] = place;
    }
    let mut post: Vec<Option<usize>> = vec![None; end + 1];
    post[end] = Some(end);
    let mut changed = true;
    while changed {
        changed = false;
        for &block in order.iter().rev().filter(|&&block| block != end) {
            let mut meet: Option<usize> = None;
            for &to in &successors[block] {
                if post[to].is_some() {
                    meet = Some(meet.map_or(to, |other| intersect(&post, &number, other, to)));
                }
            }
            if meet != post[block] {
                post[block] = meet;
                changed = true;
            }
        }
    }
    post.truncate(end);
    post
}

fn intersect(post: &[Option<usize>], number: &[usize], mut a: usize, mut b: usize) -> usize {
    while a != b {
        while number[a] < number[b] {
            a = post[a].unwrap_or(a);
        }
        while number[b] < number[a] {
            b = post[b].unwrap_or(b);
        }
    }
    a
}

#[cfg(test)]
mod tests {
    use super::post_dominators;

    #[test]
    fn diamonds_loops_and_dead_ends() {
        // 0 → 1, 2; 1 → 3; 2 → 3; 3 → exit.
        assert_eq!(post_dominators(&[vec![1, 2], vec![3], vec![3], vec![4]]), [Some(3), Some(3), Some(3), Some(4)]);
        // A loop: 0 → 1; 1 → 1, 2; 2 → exit.
        assert_eq!(post_dominators(&[vec![1], vec![1, 2], vec![3]]), [Some(1), Some(2), Some(3)]);
        // An early return: 0 → exit, 1; 1 → exit.
        assert_eq!(post_dominators(&[vec![2, 1], vec![2]]), [Some(2), Some(2)]);
        // 1 never ends.
        assert_eq!(post_dominators(&[vec![1, 2], vec![1], vec![3]]), [Some(2), None, Some(3)]);
    }
}
