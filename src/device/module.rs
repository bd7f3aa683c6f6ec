//! Modules made ready for devices, and the kernels that a device has loaded from them.

use std::any::Any;
use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use indexmap::IndexMap;

use super::{Device, DeviceId, Error, Properties};
use crate::ptx::{Arch, KernelMeta, Module, ModuleMeta};

/// A module that plans and devices share: cheap to clone, and compared by its text, so that a device loads the same
/// text once.
#[derive(Clone)]
pub struct SharedModule {
    module: Arc<Module>,
    /// A hash of the text, taken once. Equality compares the text all the same.
    fingerprint: u64,
}

impl SharedModule {
    /// A module to be shared.
    pub fn new(module: Module) -> Self {
        let mut hasher = DefaultHasher::new();
        module.ptx.hash(&mut hasher);
        Self { module: Arc::new(module), fingerprint: hasher.finish() }
    }

    /// The module.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// The metadata of the kernel `name`.
    ///
    /// # Errors
    /// When the module has no such kernel; the message names those it has.
    pub fn kernel(&self, name: &str) -> Result<&KernelMeta, Error> {
        self.module.kernel(name).ok_or_else(|| Error::NoKernel { kernel: name.to_owned(), known: self.kernel_names() })
    }

    /// The metadata of the only kernel: what a module that specialises one kernel has.
    ///
    /// # Errors
    /// When the module has none, or several; the message names those.
    pub fn only_kernel(&self) -> Result<&KernelMeta, Error> {
        match self.module.meta.kernels.as_slice() {
            [kernel] => Ok(kernel),
            _ => Err(Error::NoKernel { kernel: "(the only one)".to_owned(), known: self.kernel_names() }),
        }
    }

    fn kernel_names(&self) -> String {
        let names: Vec<&str> = self.module.meta.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        names.join(", ")
    }
}

impl From<Module> for SharedModule {
    fn from(module: Module) -> Self {
        Self::new(module)
    }
}

impl PartialEq for SharedModule {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.module, &other.module)
            || (self.fingerprint == other.fingerprint && self.module == other.module)
    }
}

impl Eq for SharedModule {}

impl Hash for SharedModule {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.fingerprint.hash(state);
    }
}

impl fmt::Debug for SharedModule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SharedModule({} for {})", self.kernel_names(), self.module.meta.arch)
    }
}

/// One target of a kernel that was made at build time: what [`load_embedded`] chooses from.
#[derive(Clone, Copy, Debug)]
pub struct Embedded {
    /// The PTX text.
    pub ptx: &'static str,
    /// The module's metadata as JSON.
    pub meta: &'static str,
}

/// Loads the first of `targets` that `device` runs, and answers its only kernel.
///
/// # Errors
/// When the device runs none of them, the metadata does not read, or the device does not take the module.
pub fn load_embedded<D: Device + ?Sized>(device: &D, targets: &[Embedded]) -> Result<Kernel, Error> {
    let properties = device.properties();
    let mut names = Vec::new();
    for target in targets {
        let meta: ModuleMeta = serde_json::from_str(target.meta)?;
        if !properties.runs(meta.arch) {
            names.push(meta.arch.name());
            continue;
        }
        let module = SharedModule::new(Module { ptx: target.ptx.to_owned(), meta });
        let name = module.only_kernel()?.name.clone();
        return device.load(&module)?.kernel(&name);
    }
    let (major, minor) = properties.capability;
    Err(Error::NoTarget { device: properties.name.clone(), major, minor, targets: names.join(", ") })
}

/// A kernel that a device has loaded. Cheap to clone; keeps its module loaded.
#[derive(Clone)]
pub struct Kernel {
    pub(super) meta: Arc<KernelMeta>,
    pub(super) device: DeviceId,
    /// What the device itself needs to start it.
    pub(super) native: Arc<dyn Any + Send + Sync>,
}

impl Kernel {
    /// Its metadata.
    pub fn meta(&self) -> &KernelMeta {
        &self.meta
    }

    /// The device that it is loaded on.
    pub fn device(&self) -> DeviceId {
        self.device
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Kernel({} on {:?})", self.meta.name, self.device)
    }
}

/// The kernels of a module, loaded on a device.
#[derive(Clone, Debug)]
pub struct LoadedModule {
    pub(super) kernels: Arc<IndexMap<String, Kernel>>,
}

impl LoadedModule {
    /// The kernel `name`.
    ///
    /// # Errors
    /// When the module has no such kernel.
    pub fn kernel(&self, name: &str) -> Result<Kernel, Error> {
        self.kernels.get(name).cloned().ok_or_else(|| {
            let known: Vec<&str> = self.kernels.keys().map(String::as_str).collect();
            Error::NoKernel { kernel: name.to_owned(), known: known.join(", ") }
        })
    }
}

/// The modules that a device has loaded, each text once.
#[derive(Debug, Default)]
pub(super) struct Cache {
    modules: Mutex<IndexMap<SharedModule, LoadedModule>>,
}

impl Cache {
    /// The loaded form of `module`, from the cache or made by `load`, which starts each of the module's kernels from
    /// its metadata. The lock is held while loading, so that two threads never load the same text twice.
    pub(super) fn get(
        &self,
        module: &SharedModule,
        properties: &Properties,
        load: impl FnOnce() -> Result<Vec<Arc<dyn Any + Send + Sync>>, Error>,
    ) -> Result<LoadedModule, Error> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = modules.get(module) {
            return Ok(loaded.clone());
        }
        check_module(module, properties)?;
        let natives = load()?;
        let kernels = module.module().meta.kernels.iter().zip(natives).map(|(meta, native)| {
            let kernel = Kernel { meta: Arc::new(meta.clone()), device: properties.id, native };
            (meta.name.clone(), kernel)
        });
        let loaded = LoadedModule { kernels: Arc::new(kernels.collect()) };
        modules.insert(module.clone(), loaded.clone());
        Ok(loaded)
    }
}

/// What can be said of a module against a device before the device sees it.
fn check_module(module: &SharedModule, properties: &Properties) -> Result<(), Error> {
    let meta = &module.module().meta;
    let (major, minor) = properties.capability;
    if !properties.runs(meta.arch) {
        return Err(Error::Target {
            target: meta.arch,
            device: properties.name.clone(),
            major,
            minor,
            fit: Arch::for_capability(major, minor),
        });
    }
    for kernel in &meta.kernels {
        let shared = u64::from(kernel.shared) + u64::from(kernel.static_shared);
        let limits = [
            ("bytes of shared memory per CTA", shared, properties.max_shared_bytes),
            ("threads per CTA", u64::from(kernel.num_warps) * 32, u64::from(properties.max_threads)),
        ];
        for (what, value, limit) in limits {
            if value > limit {
                return Err(Error::Limit {
                    kernel: kernel.name.clone(),
                    what,
                    value,
                    limit,
                    device: properties.name.clone(),
                });
            }
        }
    }
    Ok(())
}
