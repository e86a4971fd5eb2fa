//! Merges the layers into one configuration.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::env::{self, Variables};
use super::section::{Env, Leaf, Secrecy, Section, Setting, leaves};
use super::{Config, Error};
use crate::domain::typed::without_rust_types;

/// The sources of values.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    /// `--config FILE`: must exist. `None` = `config/local.toml`, if that exists.
    pub file: Option<PathBuf>,
    pub variables: Variables,
    /// Flags, as a table with the structure of the file.
    pub flags: Table,
}

impl Layers {
    /// Reads and merges the layers. The error names the layer and the key.
    pub fn load(self) -> Result<Config, Error> {
        let mut merged = Table::new();
        self.tables()?.into_iter().for_each(|(_, layer)| merge(&mut merged, layer));
        let mut config: Config = merged.try_into().map_err(|error| one_line("configuration", error))?;
        config.models.resolve(&self.variables)?;
        config.auth.resolve(&self.variables)?;
        config.check()?;
        Ok(config)
    }

    /// For every setting its source: a file, the variable's name, `flags`, or `default`.
    pub fn sources(&self) -> Result<Vec<(String, String)>, Error> {
        let tables = self.tables()?;
        let source = |leaf: &Leaf| {
            let found = tables.iter().rev().find(|(_, layer)| at(layer, &leaf.path).is_some());
            match (found.map(|(name, _)| name.as_str()), &leaf.env) {
                (Some(ENVIRONMENT), Some(name)) => name.clone(),
                (Some(name), _) => name.to_owned(),
                (None, _) => "default".to_owned(),
            }
        };
        Ok(leaves(&Config::keys()).iter().map(|leaf| (leaf.path.join("."), source(leaf))).collect())
    }

    /// From lowest to highest precedence, each with its name.
    fn tables(&self) -> Result<Vec<(String, Table)>, Error> {
        let (path, is_required) = match &self.file {
            Some(path) => (path.as_path(), true),
            None => (Path::new("config/local.toml"), false),
        };
        check_types("flags", &self.flags)?;
        let known = leaves(&Config::keys());
        let tables = vec![
            ("config/default.toml".to_owned(), file_layer(Path::new("config/default.toml"), false)?),
            (path.display().to_string(), file_layer(path, is_required)?),
            (ENVIRONMENT.to_owned(), environment(&self.variables, &known)?),
            ("flags".to_owned(), self.flags.clone()),
        ];
        check_names(&self.variables, &known, &tables)?;
        Ok(tables)
    }
}

/// The name of the layer of environment variables.
const ENVIRONMENT: &str = "environment";

fn file_layer(path: &Path, required: bool) -> Result<Table, Error> {
    let name = path.display().to_string();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound && !required => return Ok(Table::new()),
        Err(error) => return Err(unreadable(&name, &error, closed_folder(path).as_deref())),
    };
    let table: Table = toml::from_str(&text).map_err(|error| Error(format!("{name}:{}", with_line(&text, &error))))?;
    check_keys(&name, &table, &Config::keys(), &mut Vec::new())?;
    check_types(&name, &table)?;
    Ok(table)
}

/// The working directory, if nobody can tell whether it has such a file: the user may not enter it.
fn closed_folder(path: &Path) -> Option<PathBuf> {
    let is_closed =
        path.is_relative() && Path::new(".").metadata().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
    is_closed.then(|| std::env::current_dir().unwrap_or_else(|_| ".".into()))
}

fn unreadable(name: &str, error: &std::io::Error, closed_folder: Option<&Path>) -> Error {
    match closed_folder {
        Some(folder) => Error(format!(
            "{name} cannot be looked for in the working directory {}, which this user may not enter; go to another one",
            folder.display()
        )),
        None => Error(format!("{name} cannot be read: {error}")),
    }
}

/// What is wrong in a text of TOML, on one line, after the number of the line where it is.
pub(crate) fn with_line(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    format!("{line}: {}", error.message().replace('\n', ", "))
}

fn one_line(place: &str, error: toml::de::Error) -> Error {
    let message = without_value(error.to_string().trim());
    let lines: Vec<String> = message.lines().map(without_rust_types).collect();
    // What is an object in JSON is a table in TOML.
    Error(format!("{place}: {}", lines.join(" ")).replace(", expected an object", ", expected a table"))
}

/// What serde says of a wrong type without the value, which may be a secret that stands in the wrong place.
fn without_value(message: &str) -> String {
    const WRONG_TYPE: &str = "invalid type: ";
    let found = message.split_once(WRONG_TYPE).and_then(|(before, found)| {
        let (value, expected) = found.rsplit_once(", expected ")?;
        let kind = value.split(['"', '`']).next()?.trim_end();
        Some(format!("{before}{WRONG_TYPE}{kind}, expected {expected}"))
    });
    found.unwrap_or_else(|| message.to_owned())
}

fn check_types(place: &str, table: &Table) -> Result<(), Error> {
    let _: Config = table.clone().try_into().map_err(|error| one_line(place, error))?;
    Ok(())
}

fn check_keys(place: &str, table: &Table, known: &[Setting], path: &mut Vec<String>) -> Result<(), Error> {
    for (name, value) in table {
        path.push(name.clone());
        let Some(key) = known.iter().find(|key| key.name == name) else {
            let hint = did_you_mean(name, known.iter().map(|key| key.name));
            return Err(Error(format!("{place}: unknown key `{}`{hint}", path.join("."))));
        };
        if let (Env::Table { keys, .. }, Value::Table(inner)) = (&key.source.env, value) {
            check_keys(place, inner, &keys(), path)?;
        }
        path.pop();
    }
    Ok(())
}

fn environment(variables: &Variables, known: &[Leaf]) -> Result<Table, Error> {
    let defaults = Table::try_from(Config::default()).map_err(|error| Error(format!("configuration: {error}")))?;
    let mut merged = Table::new();
    for leaf in known {
        let Some(name) = &leaf.env else { continue };
        let text = match leaf.secrecy {
            Secrecy::Open => variables.get(name).map(str::to_owned),
            Secrecy::Secret => variables.get_secret(name)?,
            Secrecy::Optional => variables.get_optional_secret(name)?,
            Secrecy::Renewed => variables.get_reference(name)?,
        };
        let Some(text) = text else { continue };
        let example = leaf.example.and_then(|toml| toml.parse::<Value>().ok());
        let value = typed(name, &text, at(&defaults, &leaf.path).or(example.as_ref()))?;
        if leaf.secrecy == Secrecy::Secret && value.as_array().is_some_and(Vec::is_empty) {
            return Err(Error(format!("{name}: it has no entry; write one, or unset {name}")));
        }
        let layer = leaf
            .path
            .iter()
            .rev()
            .fold(value, |value, key| Value::Table(Table::from_iter([((*key).to_owned(), value)])));
        let Value::Table(layer) = layer else { continue };
        check_types(name, &layer)?;
        merge(&mut merged, layer);
    }
    Ok(merged)
}

/// Rejects variables with our prefix that are neither a setting nor another known name, nor referred to by a layer or
/// variable; and known ones whose value cannot be read.
fn check_names(variables: &Variables, known: &[Leaf], layers: &[(String, Table)]) -> Result<(), Error> {
    let mut referred = Vec::new();
    layers.iter().flat_map(|(_, layer)| layer.values()).for_each(|value| add_referred(value, &mut referred));
    referred.extend(variables.iter().filter_map(|(_, text)| text.strip_prefix(REFERENCE)).map(str::to_owned));
    let lent = layers.iter().filter_map(|(_, layer)| at(layer, &["mcp", "tenant_env"])?.as_array()).flatten();
    referred.extend(lent.filter_map(Value::as_str).map(str::to_owned));
    let keys = layers.iter().filter_map(|(_, layer)| at(layer, &["auth", "keys"])?.as_array()).flatten();
    let keys = keys.filter_map(|entry| entry.as_str()?.splitn(3, ':').nth(2)?.strip_prefix(REFERENCE));
    referred.extend(keys.map(str::to_owned));
    let names: Vec<String> = known
        .iter()
        .flat_map(|leaf| {
            leaf.env
                .iter()
                .flat_map(|name| [Some(name.clone()), (leaf.secrecy != Secrecy::Open).then(|| format!("{name}_FILE"))])
        })
        .flatten()
        .chain(env::OTHERS.iter().map(|name| (*name).to_owned()))
        .chain(referred)
        .collect();
    let is_ours = |name: &&String| name.starts_with("PES_") || names.contains(*name);
    if let Some(name) = variables.unreadable().iter().find(is_ours) {
        return Err(Error(format!("environment: the value of `{name}` is not UTF-8")));
    }
    for (name, value) in variables.iter() {
        if name.starts_with("PES_") && !env::is_injected(name, value) && !names.iter().any(|known| known == name) {
            let hint = did_you_mean(name, names.iter().map(String::as_str));
            return Err(Error(format!("environment: unknown name `{name}`{hint}")));
        }
    }
    Ok(())
}

/// The prefix of a reference to a variable.
const REFERENCE: &str = "env:";

/// Collects the variables that a value refers to, at any depth.
fn add_referred(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::String(text) => names.extend(text.strip_prefix(REFERENCE).map(str::to_owned)),
        Value::Array(values) => values.iter().for_each(|value| add_referred(value, names)),
        Value::Table(table) => table.values().for_each(|value| add_referred(value, names)),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {}
    }
}

const FOREVER: &str = "forever";

/// Converts text to the type of the default, or of the example of a key without default; otherwise it remains text.
fn typed(name: &str, text: &str, like: Option<&Value>) -> Result<Value, Error> {
    match like {
        Some(Value::Integer(_)) => match text.trim().parse() {
            Ok(number) => Ok(Value::Integer(number)),
            // Some numbers of days may also be this word; keys that accept only numbers reject it later.
            Err(_) if text.trim() == FOREVER => Ok(Value::String(FOREVER.to_owned())),
            Err(_) if name.starts_with("PES_RETENTION_") => {
                Err(Error(format!("{name}: `{text}` is no number of days; write one, or {FOREVER}")))
            }
            Err(_) => Err(Error(format!("{name}: `{text}` is not a whole number"))),
        },
        Some(Value::Float(_)) => match text.trim().parse() {
            Ok(number) => Ok(Value::Float(number)),
            Err(_) => Err(Error(format!("{name}: `{text}` is not a number"))),
        },
        // In any case, as OpenTelemetry has it for its variables.
        Some(Value::Boolean(_)) => match text.trim().to_ascii_lowercase().parse() {
            Ok(truth) => Ok(Value::Boolean(truth)),
            Err(_) => Err(Error(format!("{name}: `{text}` is neither true nor false"))),
        },
        Some(Value::Array(_)) => Ok(text
            .split([',', '\n'])
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(Value::from)
            .collect::<Vec<_>>()
            .into()),
        _ => Ok(Value::String(text.to_owned())),
    }
}

fn at<'t>(table: &'t Table, path: &[&str]) -> Option<&'t Value> {
    let (last, parents) = path.split_last()?;
    parents.iter().try_fold(table, |table, key| table.get(*key)?.as_table())?.get(*last)
}

fn merge(base: &mut Table, layer: Table) {
    for (key, value) in layer {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(inner)), Value::Table(more)) => merge(inner, more),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// `; did you mean …?` if a known name is similar.
pub fn did_you_mean<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> String {
    known
        .map(|candidate| match name.strip_prefix("PES_") {
            Some(rest) if rest == candidate => (0, candidate),
            Some(_) | None => (strsim::damerau_levenshtein(name, candidate), candidate),
        })
        .filter(|(distance, candidate)| *distance <= 2.max(candidate.len() / 3))
        .min()
        .map(|(_, candidate)| format!("; did you mean `{candidate}`?"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_looked_for_is_not_what_is_wrong() {
        let error = std::io::Error::from(ErrorKind::PermissionDenied);
        let told = |folder: Option<&str>| unreadable("config/default.toml", &error, folder.map(Path::new)).0;
        assert_eq!(
            told(Some("/root")),
            "config/default.toml cannot be looked for in the working directory /root, which this user may not enter; go \
             to another one"
        );
        assert_eq!(told(None), "config/default.toml cannot be read: permission denied");
    }
}
