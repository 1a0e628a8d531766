//! Signatures: "Type System" in the specification.

use super::Garbled;

/// How deep containers of one kind may lie in each other, in one signature ("Valid Signatures").
const DEPTH_MAX: u8 = 32;

/// Splits off the first single complete type: it, and what follows.
pub(super) fn first(signature: &str) -> Result<(&str, &str), Garbled> {
    let length = complete(signature.as_bytes(), 0, 0)?;
    signature.split_at_checked(length).ok_or(Garbled("a signature with letters of no type"))
}

/// Checks a signature: any number of single complete types.
pub(super) fn check(mut signature: &str) -> Result<(), Garbled> {
    while !signature.is_empty() {
        (_, signature) = first(signature)?;
    }
    Ok(())
}

/// What a type's first byte lies at a multiple of ("Summary of D-Bus marshaling").
pub(super) fn alignment(signature: &str) -> usize {
    match signature.as_bytes().first() {
        Some(b'n' | b'q') => 2,
        Some(b'b' | b'i' | b'u' | b'h' | b's' | b'o' | b'a') => 4,
        Some(b'x' | b't' | b'd' | b'(' | b'{') => 8,
        _ => 1,
    }
}

/// The length of the complete type that a signature begins with.
fn complete(signature: &[u8], arrays: u8, structs: u8) -> Result<usize, Garbled> {
    const CUT: Garbled = Garbled("a signature that ends in the middle of a type");
    if arrays > DEPTH_MAX || structs > DEPTH_MAX {
        return Err(Garbled("a signature with more than 32 containers in each other"));
    }
    let (&code, rest) = signature.split_first().ok_or(CUT)?;
    if is_basic(code) || code == b'v' {
        return Ok(1);
    }
    let mut length = 1;
    let inner = match (code, rest.first()) {
        (b'a', Some(b'{')) => {
            let (Some(key), Some(value)) = (rest.get(1), rest.get(2..)) else { return Err(CUT) };
            if !is_basic(*key) {
                return Err(Garbled("a signature with a dictionary whose key is a container"));
            }
            // `a`, `{`, key, value, `}`; an entry counts as a struct does.
            length += 2 + complete(value, arrays + 1, structs + 1)?;
            b'}'
        }
        (b'a', _) => return Ok(1 + complete(rest, arrays + 1, structs)?),
        (b'(', Some(b')')) => return Err(Garbled("a signature with an empty struct")),
        (b'(', _) => {
            while signature.get(length).ok_or(CUT)? != &b')' {
                length += complete(signature.get(length..).ok_or(CUT)?, arrays, structs + 1)?;
            }
            b')'
        }
        _ => return Err(Garbled("a signature with a letter of no type")),
    };
    if signature.get(length).ok_or(CUT)? != &inner {
        return Err(Garbled("a signature with a dictionary entry of more than two types"));
    }
    Ok(length + 1)
}

fn is_basic(code: u8) -> bool {
    b"ybnqiuxtdhsog".contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_specification_has_them() {
        for (signature, first_type) in [
            ("s", "s"),
            ("uoss", "u"),
            ("a{sv}", "a{sv}"),
            ("a(sasbttttuii)s", "a(sasbttttuii)"),
            ("(uo)", "(uo)"),
            ("aaay", "aaay"),
            ("a{s(ia{yv})}v", "a{s(ia{yv})}"),
            ("(y(y(y)))x", "(y(y(y)))"),
        ] {
            let (found, rest) = first(signature).unwrap();
            assert_eq!((found, check(signature)), (first_type, Ok(())));
            assert_eq!(format!("{found}{rest}"), signature);
            // zbus reads what PID 1's stand-in says in the tests; the two must not part ways.
            assert!(zbus::Signature::try_from(signature).is_ok());
        }
        for signature in [
            "a", "(", "()", "a{s}", "a{sss}", "a{vs}", "{sv}", "a{s", "a{", ")", "}", "z", "(y", "aa", "s(",
            "é", "r", "e", "m",
        ] {
            assert!(check(signature).is_err(), "{signature}");
        }
    }

    #[test]
    fn depth() {
        let nested =
            |opened: &str, closed: &str, times| format!("{}y{}", opened.repeat(times), closed.repeat(times));
        for (opened, closed) in [("a", ""), ("(", ")"), ("a(", ")"), ("a{y", "}")] {
            assert!(check(&nested(opened, closed, 32)).is_ok());
            assert!(check(&nested(opened, closed, 33)).is_err());
        }
    }
}
