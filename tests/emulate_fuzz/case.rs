//! One case: a text, the shape of a launch and its parameters, and what comes of them.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use tilewright::emulate::observe::{Observe, Stop, launch_observed};
use tilewright::emulate::{
    Checks, Error, Kernel, LaunchConfig, Memory, Options, TENSOR_MAP_BYTES, TensorMap, TensorMapElement,
    TensorMapSwizzle, launch,
};
use tilewright::ptx;

/// Warp instructions of a CTA.
const STEPS: u64 = 20_000;
/// Those of all CTAs of a launch.
const LAUNCH_STEPS: u64 = 100_000;

/// A text to start from, and the launch that it is meant for.
pub struct Seed {
    pub name: String,
    pub text: String,
    pub config: LaunchConfig,
}

impl Seed {
    /// Reads the launch of a file of `tests/emulate` from its head, any other's from its directives.
    pub fn new(name: String, text: String) -> Self {
        let mut config = LaunchConfig { block: [128, 1, 1], ..LaunchConfig::default() };
        if let Some(block) = text.split(".reqntid").nth(1).and_then(|rest| rest.lines().next()) {
            config.block = extents(block);
        }
        let head = text.lines().filter_map(|line| line.strip_prefix("// launch:")).next().unwrap_or_default();
        for (key, value) in head.split_whitespace().filter_map(|word| word.split_once('=')) {
            match key {
                "grid" => config.grid = extents(value),
                "block" => config.block = extents(value),
                "cluster" => config.cluster = extents(value),
                "shared" => config.dynamic_shared = value.parse().unwrap_or(0),
                _ => {}
            }
        }
        if head.is_empty() && text.contains(".extern .shared") {
            config.dynamic_shared = 100 << 10;
        }
        Self { name, text, config }
    }
}

fn extents(text: &str) -> [u32; 3] {
    let mut extents = [1; 3];
    for (extent, text) in extents.iter_mut().zip(text.split(',')) {
        *extent = text.trim().parse().unwrap_or(1);
    }
    extents
}

/// A case, made but not run.
pub struct Case {
    pub seed: String,
    pub text: String,
    pub config: LaunchConfig,
    /// What a parameter of 64 bits is: an offset into a buffer of so many bytes, or anything.
    pointers: Vec<(u64, Pointer)>,
    scalars: Vec<u64>,
    cut_params: usize,
    fill: Option<u8>,
    pub options: Options,
    observe: Option<Observe>,
    map: TensorMap,
}

#[derive(Clone, Copy)]
enum Pointer {
    At(u64),
    Anything(u64),
}

const EXTENTS: &[u32] =
    &[0, 1, 2, 3, 4, 8, 16, 31, 32, 33, 64, 96, 127, 128, 256, 1023, 1024, 1025, 65535, 65536, 1 << 31, u32::MAX];
const BYTES: &[u64] = &[0, 1, 3, 4, 5, 15, 16, 127, 128, 255, 256, 4095, 4096, 16384, 65535, 1 << 20];
const ADDRESSES: &[u64] = &[
    0,
    1,
    4,
    0xff,
    0x1000,
    0xffff_ffff,
    0x1_0000_0000,
    0x8_0000_0000,
    0x10_0000_0000,
    0x10_0000_0004,
    0x10_0001_0000,
    0x7d00_0000_0000,
    0x7e00_0000_0000,
    0x7eff_ffff_fffc,
    0x7f00_0000_0000,
    0x7f00_0000_0004,
    0x7f00_ffff_fffc,
    0x7f01_0000_0000,
    1 << 63,
    u64::MAX - 3,
    u64::MAX,
];
const SCALARS: &[u64] = &[
    0,
    1,
    2,
    3,
    4,
    7,
    16,
    31,
    32,
    33,
    64,
    100,
    128,
    1024,
    65535,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 40,
    u64::MAX,
];

/// With their bytes.
const ELEMENTS: [(TensorMapElement, u32); 6] = {
    use TensorMapElement::{Bf16, F16, F32, U8, U32, U64};
    [(U8, 1), (U32, 4), (U64, 8), (F16, 2), (Bf16, 2), (F32, 4)]
};
const SWIZZLES: [TensorMapSwizzle; 4] = {
    use TensorMapSwizzle::{B32, B64, B128, None};
    [None, B32, B64, B128]
};

fn any<T: Copy>(rng: &mut StdRng, list: &[T]) -> T {
    *list.choose(rng).unwrap()
}

impl Case {
    pub fn new(rng: &mut StdRng, seed: &Seed, text: String, max_memory: u64) -> Self {
        let mut config = seed.config.clone();
        let mut options = Options {
            max_steps: Some(STEPS),
            max_launch_steps: Some(LAUNCH_STEPS),
            max_memory: Some(max_memory),
            ..Options::default()
        };
        // Launches are mostly as they should be: the text is then what fails.
        if rng.random_ratio(1, 5) {
            let axis = rng.random_range(0..3);
            match rng.random_range(0..6) {
                0 => config.block[axis] = any(rng, EXTENTS),
                1 => config.grid[axis] = any(rng, EXTENTS),
                2 => config.cluster[axis] = any(rng, EXTENTS),
                3 => {
                    config.cluster = [any(rng, &[2, 4, 8, 16]), 1, 1];
                    config.grid[0] = config.cluster[0].saturating_mul(any(rng, &[1, 2]));
                }
                4 => config.dynamic_shared = any(rng, BYTES) as u32,
                _ => config.dynamic_shared = any(rng, &[48 << 10, 100 << 10, 227 << 10, 228 << 10, 1 << 24, u32::MAX]),
            }
        }
        if rng.random_ratio(1, 6) {
            let [race, init, sync, fence_copies] = rng.random();
            options.checks = Checks { race, init, sync, fence_copies };
        }
        if rng.random_ratio(1, 20) {
            options.max_shared = Some(any(rng, &[0, 1, 1 << 24, u64::MAX]));
        }
        let observe = rng.random_ratio(1, 10).then(|| Observe {
            trace: any(rng, &[None, Some(0), Some(100), Some(u64::MAX)]),
            profile: rng.random(),
            stop: rng.random_ratio(1, 2).then(|| Stop { line: rng.random_range(1..100), hit: rng.random_range(0..3) }),
            ..Observe::default()
        });
        let is_odd = rng.random_ratio(1, 5);
        // Mostly a map that a card takes and the text names: other ones are refused before a byte moves.
        let is_fitting = rng.random_ratio(9, 10);
        let named = text.split(".tensor.").nth(1).and_then(|rest| rest.split_once('d')?.0.parse().ok());
        let rank = named.filter(|rank| is_fitting && (1..=5).contains(rank)).unwrap_or_else(|| any(rng, &[1, 2, 3, 5]));
        let (element, bytes) = any(rng, &ELEMENTS);
        let row = if is_fitting { 16 / bytes } else { any(rng, &[1, 16, 256]) };
        let map = TensorMap {
            element,
            address: 0,
            dims: (0..rank).map(|_| any(rng, &[1, 2, 16, 64, 1 << 32])).collect(),
            strides: vec![any(rng, &[0, 16, 64, 128, (1 << 40) - 16])],
            box_dims: (0..rank).map(|axis| if axis == 0 { row } else { any(rng, &[1, 1, 2, 4, 32, 256]) }).collect(),
            swizzle: any(rng, &SWIZZLES),
            fill_nan: !is_fitting && rng.random(),
        };
        let pointers = (0..24)
            .map(|_| {
                let bytes = if is_odd { any(rng, BYTES) } else { 16384 };
                let pointer = match rng.random_range(0..if is_odd { 8 } else { 100 }) {
                    0 => Pointer::Anything(any(rng, ADDRESSES)),
                    1 => Pointer::At(any(rng, BYTES)),
                    2 => Pointer::Anything(rng.random()),
                    _ => Pointer::At(0),
                };
                (bytes, pointer)
            })
            .collect();
        Self {
            seed: seed.name.clone(),
            text,
            config,
            pointers,
            scalars: (0..24).map(|_| any(rng, if is_odd { SCALARS } else { &[1, 16, 64] })).collect(),
            cut_params: if rng.random_ratio(1, 50) { rng.random_range(0..16) } else { 0 },
            fill: any(rng, &[Some(0), Some(0), Some(0), Some(1), Some(0xff), None]),
            options,
            observe,
            map,
        }
    }

    /// A map over a buffer of its own, and rarely over nothing.
    fn tensor_map(&self, memory: &Memory) -> [u8; TENSOR_MAP_BYTES] {
        let (bytes, pointer) = self.pointers[0];
        let address = match pointer {
            Pointer::Anything(value) => value & !15,
            Pointer::At(_) => memory.alloc(bytes, "tensor").unwrap_or(0),
        };
        let _ = memory.fill(address, 1, bytes);
        let rank = self.map.dims.len();
        let map = TensorMap { address, strides: vec![self.map.strides[0]; rank - 1], ..self.map.clone() };
        map.encode().unwrap_or([0; TENSOR_MAP_BYTES])
    }

    /// Parses, prints, decodes and runs it; one word for what came of it.
    pub fn run(&self) -> &'static str {
        let Ok(program) = ptx::parse(&self.text) else { return "not parsed" };
        let printed = ptx::print(&program);
        ptx::parse(&printed).unwrap_or_else(|fault| panic!("what was printed does not parse: {fault}"));
        let _ = ptx::Statistics::of(&program);
        let kernel = match Kernel::new(&self.text, None) {
            Ok(kernel) => kernel,
            Err(error) => {
                let _ = error.to_string();
                return "not decoded";
            }
        };
        let memory = Memory::with_limit(64 << 20);
        let mut params = vec![0_u8; 0];
        let entry = program.entries().next();
        for (index, param) in entry.map_or(&[][..], |entry| &entry.params).iter().enumerate() {
            let size = param.element_bytes().clamp(1, 8) as usize;
            let value = match self.pointers[index % 24] {
                (bytes, pointer) if size == 8 => {
                    let Ok(address) = memory.alloc(bytes, &param.name) else { return "no memory" };
                    if let Some(byte) = self.fill {
                        memory.fill(address, byte, bytes).unwrap();
                    }
                    match pointer {
                        Pointer::At(offset) => address + offset,
                        Pointer::Anything(value) => value,
                    }
                }
                _ => self.scalars[index % 24],
            };
            if !param.dims.is_empty() {
                // A structure by value: a tensor map is one.
                params.resize(params.len().next_multiple_of(64), 0);
                params.extend(self.tensor_map(&memory));
                continue;
            }
            params.resize(params.len().next_multiple_of(size), 0);
            params.extend(&value.to_le_bytes()[..size]);
        }
        let wanted = (kernel.param_bytes() as usize).min(1 << 20);
        params.resize(wanted.saturating_sub(self.cut_params), 0);
        let result = match &self.observe {
            None => launch(&kernel, &self.config, &params, &memory, &self.options),
            Some(observe) => match launch_observed(&kernel, &self.config, &params, &memory, &self.options, observe) {
                Err(error) => Err(error),
                Ok((result, seen)) => {
                    for text in seen.events.iter().take(1000).map(|event| format!("{event:?}")) {
                        assert!(!text.is_empty());
                    }
                    result
                }
            },
        };
        match result {
            Ok(_) => "ran",
            Err(error) => {
                let message = error.to_string();
                assert!(!message.is_empty());
                match error {
                    Error::Fault(fault) => kind(fault.kind),
                    Error::Limit { .. } => "refused: limits",
                    _ => "refused",
                }
            }
        }
    }
}

fn kind(kind: tilewright::emulate::FaultKind) -> &'static str {
    use tilewright::emulate::FaultKind;
    match kind {
        FaultKind::Bounds => "fault: bounds",
        FaultKind::Alignment => "fault: alignment",
        FaultKind::Race => "fault: race",
        FaultKind::Uninitialised => "fault: init",
        FaultKind::Sync => "fault: sync",
        FaultKind::Steps => "fault: steps",
        FaultKind::Memory => "fault: memory",
        FaultKind::Trap => "fault: trap",
    }
}
