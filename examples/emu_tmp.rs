//! x
use tilewright::{
    emulate::*,
    ptx::{Arch, Module},
    template::*,
};
fn go(m: &Module, n: usize, b: usize, checked: bool) {
    let meta = &m.meta.kernels[0];
    let k = Kernel::new(&m.ptx, None).unwrap_or_else(|e| panic!("{e}"));
    let mut a = vec![0f32; b * n * n];
    let mut s = 1u64;
    let mut r = || {
        s = s.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((s >> 40) as f32) / (1u64 << 24) as f32 - 0.5
    };
    for m in 0..b {
        let g: Vec<f32> = (0..n * n).map(|_| r()).collect();
        for i in 0..n {
            for j in 0..=i {
                let mut t = 0f32;
                for k in 0..n {
                    t += g[i * n + k] * g[j * n + k];
                }
                a[m * n * n + i * n + j] = t / n as f32 + if i == j { 0.05 } else { 0.0 };
                if i != j {
                    a[m * n * n + j * n + i] = f32::NAN;
                }
            }
        }
    }
    let mem = Memory::new();
    let pa = mem.alloc((4 * b * n * n) as u64, "a").unwrap();
    let pl = mem.alloc((4 * b * n * n) as u64, "l").unwrap();
    let pi = mem.alloc(4 * b as u64, "info").unwrap();
    let bytes: Vec<u8> = a.iter().flat_map(|x| x.to_le_bytes()).collect();
    mem.write(pa, &bytes).unwrap();
    let mut p = vec![];
    for x in [pa, pl, pi, (n * n) as u64, (n * n) as u64] {
        p.extend(x.to_le_bytes());
    }
    for x in [n as u32, n as u32, b as u32] {
        p.extend(x.to_le_bytes());
    }
    let per = match &meta.grid.x {
        tilewright::ptx::Extent::Ceil { by, .. } => *by,
        _ => 1,
    };
    let c = LaunchConfig {
        grid: [(b as u32).div_ceil(per), 1, 1],
        block: [32 * meta.num_warps, 1, 1],
        dynamic_shared: meta.shared,
        ..Default::default()
    };
    let t = std::time::Instant::now();
    let o = if checked { Options::default() } else { Options::unchecked() };
    let st = launch(&k, &c, &p, &mem, &o).unwrap_or_else(|e| panic!("{e}"));
    let t = t.elapsed().as_secs_f64();
    let mut out = vec![0u8; 4 * b * n * n];
    mem.read(pl, &mut out).unwrap();
    let l: Vec<f32> = out.chunks(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect();
    let mut worst = 0f64;
    for m in 0..b.min(4) {
        let mut norm = 0f64;
        let mut res = 0f64;
        for j in 0..n {
            let mut cs = 0.;
            let mut rs = 0.;
            for i in 0..n {
                let (x, y) = (i.max(j), i.min(j));
                let av = a[m * n * n + x * n + y] as f64;
                let mut d = -av;
                for k in 0..=y {
                    d += l[m * n * n + x * n + k] as f64 * l[m * n * n + y * n + k] as f64;
                }
                cs += av.abs();
                rs += d.abs();
            }
            norm = norm.max(cs);
            res = res.max(rs);
        }
        worst = worst.max(res / (norm * n as f64 * 2f64.powi(-23)));
    }
    let up = (0..n).all(|i| (i + 1..n).all(|j| l[i * n + j] == 0.0));
    println!(
        "{} b={b} checked={checked}: {:.3}s {:.2} M warp instr/s, resid {worst:.4} upper zero {up}",
        meta.name,
        t,
        st.warp_instructions as f64 / t / 1e6
    );
}
fn main() {
    for c in [true, false] {
        go(&PotrfWarp { n: 32, rank: 2, warps: 4 }.instantiate(Arch::Sm90a).unwrap(), 32, 4096, c);
        go(&PotrfWarp { n: 32, rank: 4, warps: 4 }.instantiate(Arch::Sm90a).unwrap(), 32, 4096, c);
        go(&PotrfRows { n: 64, rank: 2 }.instantiate(Arch::Sm90a).unwrap(), 64, 64, c);
        go(&PotrfBlock { n: 128, block: 16, warps: 8 }.instantiate(Arch::Sm90a).unwrap(), 128, 16, c);
    }
    for n in [1, 2, 3, 5, 17, 31] {
        for rank in [1, 2, 4] {
            go(&PotrfWarp { n, rank, warps: 2 }.instantiate(Arch::Sm90a).unwrap(), n as usize, 5, true);
        }
    }
    for n in [33, 47, 63] {
        for rank in [1, 2, 4] {
            go(&PotrfRows { n, rank }.instantiate(Arch::Sm90a).unwrap(), n as usize, 3, true);
        }
    }
    for n in [65, 100, 189, 192] {
        for (block, warps) in [(8, 4), (16, 8), (32, 4)] {
            go(&PotrfBlock { n, block, warps }.instantiate(Arch::Sm90a).unwrap(), n as usize, 2, true);
        }
    }
}
