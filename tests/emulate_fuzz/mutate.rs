//! Changes to a PTX text, as a careless hand or a hostile one makes them: by words, by lines and by bytes.

use std::ops::Range;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// Numbers at which things end.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "4",
    "5",
    "7",
    "8",
    "15",
    "16",
    "17",
    "31",
    "32",
    "33",
    "63",
    "64",
    "65",
    "127",
    "128",
    "255",
    "256",
    "257",
    "511",
    "512",
    "1023",
    "1024",
    "1025",
    "4095",
    "4096",
    "16384",
    "32767",
    "32768",
    "65535",
    "65536",
    "524288",
    "1048575",
    "1048576",
    "16777215",
    "16777216",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "0xffffffff",
    "0x80000000",
    "0x7fffffffffffffff",
    "0xffffffffffffffff",
    "0xfffffff0",
    "1U",
    "-1",
    "-2",
    "-8",
    "-2147483648",
    "-2147483649",
    "-9223372036854775808",
    "-9223372036854775809",
    "0f7f800000",
    "0f7fc00000",
    "0f00000001",
    "0d7ff0000000000000",
    "1e400",
    "0x",
    "08",
    "0b1",
    "99999999999999999999999999",
];

/// Bytes that a lexer may stumble over.
const BYTES: &[&str] = &[
    "{", "}", "(", ")", "[", "]", "<", ">", ";", ":", ",", ".", "..", "@", "!", "%", "|", "+", "-", "*", "/", "//",
    "/*", "*/", "\"", "\\", "_", "$", "#", "\0", "\n", "\r", "\t", " ", "é", "\u{2028}", "𝒳", "\u{feff}", "0", "x",
    "=",
];

/// Statements that a kernel may have more of.
const STATEMENTS: &[&str] = &[
    "bar.sync 0;",
    "bar.sync 1, 64;",
    "bar.arrive 15, 1024;",
    "barrier.cluster.arrive.aligned;",
    "barrier.cluster.wait.aligned;",
    "ret;",
    "exit;",
    "trap;",
    "cp.async.commit_group;",
    "cp.async.wait_group 0;",
    "cp.async.wait_all;",
    "wgmma.fence.sync.aligned;",
    "wgmma.commit_group.sync.aligned;",
    "wgmma.wait_group.sync.aligned 0;",
    "tcgen05.wait::ld.sync.aligned;",
    "tcgen05.fence::after_thread_sync;",
    "fence.proxy.async;",
    "cp.async.bulk.commit_group;",
    "cp.async.bulk.wait_group 0;",
    "membar.cta;",
    "bar.warp.sync -1;",
    ".shared .align 128 .b8 fuzz_s[4096];",
    ".local .align 16 .b8 fuzz_l[65536];",
    ".reg .b32 %fuzz<50000>;",
    ".reg .b64 %fuzzd<50000>;",
    ".shared .align 8 .b8 fuzz_big[200000];",
    "{",
    "}",
    "nanosleep.u32 1000000;",
    "setmaxnreg.inc.sync.aligned.u32 256;",
];

/// What is taken from all texts for use in one.
pub struct Dictionary {
    lines: Vec<String>,
    suffixes: Vec<String>,
    opcodes: Vec<String>,
}

impl Dictionary {
    pub fn of<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let (mut lines, mut suffixes, mut opcodes) = (Vec::new(), Vec::new(), Vec::new());
        for line in texts.flat_map(str::lines).map(str::trim) {
            if line.is_empty() || line.starts_with("//") {
                continue;
            }
            let head = line.split_whitespace().find(|word| !word.starts_with('@')).unwrap_or_default();
            let mut parts = head.trim_end_matches(';').split('.');
            opcodes.extend(parts.next().filter(|word| !word.is_empty()).map(str::to_owned));
            suffixes.extend(parts.filter(|word| !word.is_empty()).map(str::to_owned));
            lines.push(line.to_owned());
        }
        // Rare ones are as likely as common ones.
        for list in [&mut lines, &mut suffixes, &mut opcodes] {
            list.sort();
            list.dedup();
        }
        Self { lines, suffixes, opcodes }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%')
}

/// The ranges of the words of `text`.
fn words(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        while at < bytes.len() && is_word(bytes[at]) {
            at += 1;
        }
        if at > start {
            found.push(start..at);
        } else {
            at += 1;
        }
    }
    found
}

/// A place in `text` between two characters.
fn place(rng: &mut StdRng, text: &str) -> usize {
    let mut at = rng.random_range(0..=text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn pick<'a>(rng: &mut StdRng, list: &'a [impl AsRef<str>]) -> &'a str {
    list.choose(rng).map_or("", AsRef::as_ref)
}

/// Puts another word in the place of one of `line` that `is_one` takes.
fn replace_word(
    rng: &mut StdRng,
    line: &mut String,
    is_one: impl Fn(&str) -> bool,
    by: impl Fn(&mut StdRng) -> String,
) {
    let found: Vec<_> = words(line).into_iter().filter(|range| is_one(&line[range.clone()])).collect();
    if let Some(range) = found.choose(rng) {
        let mut range = range.clone();
        if range.start > 0 && line.as_bytes()[range.start - 1] == b'-' {
            range.start -= 1;
        }
        line.replace_range(range, &by(rng));
    }
}

fn starts_with_digit(word: &str) -> bool {
    word.starts_with(|letter: char| letter.is_ascii_digit())
}

/// Exchanges, doubles or drops operands.
fn operands(rng: &mut StdRng, line: &mut String) {
    let Some(start) = line.find(char::is_whitespace) else { return };
    let end = line.rfind(';').unwrap_or(line.len());
    if end <= start {
        return;
    }
    let mut list: Vec<String> = line[start..end].split(',').map(str::to_owned).collect();
    let (a, b) = (rng.random_range(0..list.len()), rng.random_range(0..list.len()));
    match rng.random_range(0..4) {
        0 | 1 => list.swap(a, b),
        2 => list.insert(a, list[b].clone()),
        _ => drop(list.remove(a)),
    }
    line.replace_range(start..end, &format!(" {}", list.join(",")));
}

/// Changes, adds or drops a suffix of the opcode.
fn suffix(rng: &mut StdRng, line: &mut String, dictionary: &Dictionary) {
    let points: Vec<usize> = line.match_indices('.').map(|(at, _)| at).collect();
    let Some(&at) = points.choose(rng) else { return };
    let end =
        line[at + 1..].find(|letter: char| !is_word(letter as u8) && letter != ':').map_or(line.len(), |n| at + 1 + n);
    let other = format!(".{}", pick(rng, &dictionary.suffixes));
    match rng.random_range(0..6) {
        0 => line.replace_range(at..end, ""),
        1 => line.insert_str(end, &other),
        _ => line.replace_range(at..end, &other),
    }
}

/// One change of a line.
fn change_line(rng: &mut StdRng, lines: &[String], index: usize, dictionary: &Dictionary) -> String {
    let mut line = lines[index].clone();
    // Names of a line nearby, so that most are declared.
    let other_word = |rng: &mut StdRng| {
        let near = rng.random_range(index.saturating_sub(40)..(index + 40).min(lines.len()));
        let found = words(&lines[near]);
        found.choose(rng).map_or_else(|| "%tid".to_owned(), |range| lines[near][range.clone()].to_owned())
    };
    match rng.random_range(0..12) {
        0..=2 => replace_word(rng, &mut line, starts_with_digit, |rng| pick(rng, NUMBERS).to_owned()),
        3 | 4 => suffix(rng, &mut line, dictionary),
        5 | 6 => operands(rng, &mut line),
        7 | 8 => replace_word(rng, &mut line, |word| !starts_with_digit(word), other_word),
        // A register by a number, or the other way round.
        9 => {
            let number = pick(rng, NUMBERS).to_owned();
            replace_word(rng, &mut line, |word| word.starts_with('%'), |_| number.clone());
        }
        10 => replace_word(rng, &mut line, |_| true, |rng| pick(rng, &dictionary.opcodes).to_owned()),
        _ => {
            let guard =
                ["@%p0 ", "@!%p0 ", "@%p ", "@!%p ", "@%p1 ", "@!%p1 "].choose(rng).copied().unwrap_or_default();
            line.insert_str(0, guard);
        }
    }
    line
}

/// `text` with between one and a few changes.
pub fn mutate(rng: &mut StdRng, text: &str, dictionary: &Dictionary) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let changes = [1, 1, 1, 2, 2, 3, 5].choose(rng).copied().unwrap_or(1);
    for _ in 0..changes {
        if lines.is_empty() {
            break;
        }
        // Comments say nothing; the first lines are the module's head.
        let mut index = rng.random_range(0..lines.len());
        for _ in 0..20 {
            if !lines[index].trim_start().starts_with("//") && !lines[index].trim().is_empty() {
                break;
            }
            index = rng.random_range(0..lines.len());
        }
        let other = rng.random_range(index.saturating_sub(20)..(index + 20).min(lines.len()));
        match rng.random_range(0..40) {
            0..=24 => lines[index] = change_line(rng, &lines, index, dictionary),
            25..=27 => drop(lines.remove(index)),
            28 | 29 => lines.insert(index, lines[other].clone()),
            30 | 31 => lines.swap(index, other),
            32..=34 => lines.insert(index, pick(rng, STATEMENTS).to_owned()),
            35..=37 => lines.insert(index, pick(rng, &dictionary.lines).to_owned()),
            38 => {
                let at = place(rng, &lines[index]);
                lines[index].insert_str(at, pick(rng, BYTES));
            }
            _ => {
                let mut whole = lines.join("\n");
                let at = place(rng, &whole);
                match rng.random_range(0..4) {
                    0 => whole.truncate(at),
                    1 => whole.insert_str(at, &pick(rng, BYTES).repeat(rng.random_range(1..300))),
                    2 => {
                        let to = place(rng, &whole);
                        let (from, to) = (at.min(to), at.max(to));
                        let end = whole.char_indices().map(|(at, _)| at).find(|&other| other >= from + 200);
                        whole.replace_range(from..end.map_or(to, |end| end.min(to)), "");
                    }
                    // A zero byte more or less in the middle of a word.
                    _ => whole.insert(at, '\0'),
                }
                lines = whole.lines().map(str::to_owned).collect();
            }
        }
    }
    lines.join("\n")
}
