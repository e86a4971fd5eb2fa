//! The scope that each operation needs, as the OpenAPI document says it: that of the handler's first argument, which
//! enforces it.

use axum::extract::State;
use axum::handler::Handler;
use utoipa::openapi::security::SecurityRequirement;
use utoipa_axum::router::UtoipaMethodRouter;

use super::app_state::AppState;
use super::openapi::SECURITY_SCHEME;
use super::reply_preferences::ReplyPreferences;
use crate::domain::caller::Scope;

/// The first argument of a handler.
pub(crate) trait FirstArgument {
    /// The caller needs one of these. Empty: any caller is admitted, or the scope depends on the body.
    const SCOPES: &'static [Scope];
}

impl FirstArgument for State<AppState> {
    const SCOPES: &'static [Scope] = &[];
}

impl FirstArgument for ReplyPreferences {
    const SCOPES: &'static [Scope] = &[];
}

/// The arguments of a handler, as [`Handler`] names them.
pub(crate) trait Arguments {
    const SCOPES: &'static [Scope];
}

impl Arguments for ((),) {
    const SCOPES: &'static [Scope] = &[];
}

macro_rules! arguments {
    ($($other:ident)*) => {
        impl<M, First: FirstArgument, $($other),*> Arguments for (M, First, $($other),*) {
            const SCOPES: &'static [Scope] = First::SCOPES;
        }
    };
}

arguments! {}
arguments! { A }
arguments! { A B }
arguments! { A B C }
arguments! { A B C D }
arguments! { A B C D E }
arguments! { A B C D E F }
arguments! { A B C D E F G }
arguments! { A B C D E F G H }

/// The route of one handler, with its scopes.
pub(crate) fn with_scopes<H, T>(
    (schemas, mut paths, methods): UtoipaMethodRouter<AppState>,
    _: H,
) -> UtoipaMethodRouter<AppState>
where
    H: Handler<T, AppState>,
    T: Arguments,
{
    if !T::SCOPES.is_empty() {
        let of_scope = |scope: &Scope| SecurityRequirement::new(SECURITY_SCHEME, [scope.as_str()]);
        let security: Vec<SecurityRequirement> = T::SCOPES.iter().map(of_scope).collect();
        for path in paths.paths.values_mut() {
            let methods = [&mut path.get, &mut path.put, &mut path.post, &mut path.patch, &mut path.delete];
            methods.into_iter().flatten().for_each(|operation| operation.security = Some(security.clone()));
        }
    }
    (schemas, paths, methods)
}

/// The routes of the handlers of one path.
pub(crate) fn joined<const N: usize>(routes: [UtoipaMethodRouter<AppState>; N]) -> UtoipaMethodRouter<AppState> {
    let join = |(mut schemas, mut paths, methods): UtoipaMethodRouter<AppState>,
                other: UtoipaMethodRouter<AppState>| {
        schemas.extend(other.0);
        paths.merge(other.1);
        (schemas, paths, methods.merge(other.2))
    };
    routes.into_iter().reduce(join).expect("a path has a handler")
}

/// As `routes!` of utoipa-axum, with the scope of each handler.
macro_rules! routes {
    ($($handler:path),+ $(,)?) => {
        $crate::http::scopes::joined([
            $($crate::http::scopes::with_scopes(utoipa_axum::routes!($handler), $handler)),+
        ])
    };
}

pub(crate) use routes;
