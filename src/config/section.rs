//! Declares sections: their keys with documentation, defaults and environment names, in one place.

/// A key of the configuration, for the layers and the template.
#[derive(Clone, Debug)]
pub struct Setting {
    pub name: &'static str,
    pub doc: &'static [&'static str],
    pub source: Source,
}

/// The sources of a key's value besides a file.
#[derive(Clone, Debug)]
pub struct Source {
    pub env: Env,
    pub secrecy: Secrecy,
    /// The example in the template for a key without a default, as TOML.
    pub example: Option<&'static str>,
}

/// Whether a value is secret. A secret can also be read from the file in `<NAME>_FILE`, and is never printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrecy {
    Open,
    Secret,
    /// There may be none: that file, or the list in the variable, may be empty.
    Optional,
    /// That file is not read at startup: the value refers to it, because its content may change.
    Renewed,
}

#[derive(Clone, Debug)]
pub enum Env {
    /// A common name that is not derived from the path.
    Named(&'static str),
    /// `PES_` and the path in capitals: `PES_LIMITS_BODY_BYTES`.
    ByPath,
    /// Files only: the value has a structure.
    None,
    /// Not a value but a table of keys.
    Table { about: &'static [&'static str], keys: fn() -> Vec<Setting> },
}

impl Env {
    /// The name of the variable for a key with this path.
    pub fn name(&self, path: &[&str]) -> Option<String> {
        match self {
            Env::Named(name) => Some((*name).to_owned()),
            Env::ByPath => Some(format!("PES_{}", path.join("_").to_uppercase())),
            Env::None | Env::Table { .. } => None,
        }
    }
}

/// A table of keys; `section!` implements it.
pub trait Section {
    const ABOUT: &'static [&'static str];
    fn keys() -> Vec<Setting>;
}

pub fn named(name: &'static str) -> Source {
    Source::of(Env::Named(name))
}
pub fn by_path() -> Source {
    Source::of(Env::ByPath)
}
pub fn file_only() -> Source {
    Source::of(Env::None)
}
pub fn table<S: Section>() -> Source {
    Source::of(Env::Table { about: S::ABOUT, keys: S::keys })
}

impl Source {
    fn of(env: Env) -> Self {
        Self { env, secrecy: Secrecy::Open, example: None }
    }
    pub fn secret(self) -> Self {
        Self { secrecy: Secrecy::Secret, ..self }
    }
    /// A secret whose file is read again when it changes.
    pub fn renewed(self) -> Self {
        Self { secrecy: Secrecy::Renewed, ..self }
    }
    /// A secret of which there may be none, although a file is named for it.
    pub fn optional(self) -> Self {
        Self { secrecy: Secrecy::Optional, ..self }
    }
    pub fn example(self, toml: &'static str) -> Self {
        Self { example: Some(toml), ..self }
    }
}

/// A leaf in the tree of keys.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// The path from the root: `["models", "openai", "api_key"]`.
    pub path: Vec<&'static str>,
    pub env: Option<String>,
    pub secrecy: Secrecy,
    /// The example of a key without default, as TOML.
    pub example: Option<&'static str>,
}

/// Every leaf below these keys, in order of declaration.
pub fn leaves(keys: &[Setting]) -> Vec<Leaf> {
    let mut found = Vec::new();
    collect(keys, &mut Vec::new(), &mut found);
    found
}

fn collect(keys: &[Setting], path: &mut Vec<&'static str>, found: &mut Vec<Leaf>) {
    for key in keys {
        path.push(key.name);
        match &key.source {
            Source { env: Env::Table { keys, .. }, .. } => collect(&keys(), path, found),
            Source { env, secrecy, example } => {
                found.push(Leaf { path: path.clone(), env: env.name(path), secrecy: *secrecy, example: *example });
            }
        }
        path.pop();
    }
}

/// Declares a section: the struct, its defaults, and the data of its keys for the layers and the template.
macro_rules! section {
    ($(#[doc = $about:literal])* $name:ident { $(
        $(#[doc = $doc:literal])*
        $(#[serde($($serde:tt)*)])?
        $key:ident: $type:ty = $default:expr, $source:expr;
    )+ }) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $(
                $(#[doc = $doc])*
                #[doc = concat!("\n\nDefault: `", stringify!($default), "`.")]
                $(#[serde($($serde)*)])?
                pub $key: $type,
            )+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $default,)+ }
            }
        }

        impl $crate::config::section::Section for $name {
            const ABOUT: &'static [&'static str] = &[$($about),*];

            fn keys() -> Vec<$crate::config::section::Setting> {
                vec![$($crate::config::section::Setting {
                    name: stringify!($key),
                    doc: &[$($doc),*],
                    source: $source,
                },)+]
            }
        }
    };
}
