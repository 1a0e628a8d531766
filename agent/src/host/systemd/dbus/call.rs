//! A call of a method, as bytes.

use super::{DbusError, message::field};

/// A method to be called, with texts as arguments.
#[derive(Debug, Clone, Copy)]
pub struct Call<'c> {
    /// Whom it is for.
    pub destination: &'c str,
    /// The object.
    pub path: &'c str,
    /// The interface.
    pub interface: &'c str,
    /// The method.
    pub method: &'c str,
    /// Its arguments, each of type `s`.
    pub arguments: &'c [&'c str],
}

impl Call<'_> {
    /// The message ("Message Format"), in the byte order of x86, with no flags: whom it is for may be started, and answers.
    /// Who sends it is for the bus to say.
    pub fn message(&self, serial: u32) -> Result<Vec<u8>, DbusError> {
        let mut texts =
            self.arguments.iter().chain([&self.destination, &self.path, &self.interface, &self.method]);
        if texts.any(|text| text.contains('\0')) {
            return Err(DbusError::Null);
        }
        let mut body = Vec::new();
        for argument in self.arguments {
            put_text(&mut body, argument);
        }
        let mut message = vec![b'l', super::message::METHOD_CALL, 0, super::message::PROTOCOL];
        put_length(&mut message, body.len());
        message.extend(serial.to_le_bytes());
        // The length of the array of fields, which isn't known yet.
        message.extend([0; 4]);
        let start = message.len();
        put_field(&mut message, field::PATH, b'o', self.path);
        put_field(&mut message, field::INTERFACE, b's', self.interface);
        put_field(&mut message, field::MEMBER, b's', self.method);
        put_field(&mut message, field::DESTINATION, b's', self.destination);
        if let Ok(count @ 1..) = u8::try_from(self.arguments.len()) {
            align(&mut message, 8);
            message.extend([field::SIGNATURE, 1, b'g', 0, count]);
            message.extend(self.arguments.iter().map(|_| b's'));
            message.push(0);
        }
        let length = message.len() - start;
        let mut counted = Vec::new();
        put_length(&mut counted, length);
        message.splice(start - 4..start, counted);
        align(&mut message, 8);
        message.extend(body);
        Ok(message)
    }
}

fn align(bytes: &mut Vec<u8>, to: usize) {
    bytes.resize(bytes.len().next_multiple_of(to), 0);
}

/// What is sent is names of units: far below 4 GiB.
fn put_length(bytes: &mut Vec<u8>, length: usize) {
    bytes.extend(u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
}

/// A struct of a code and a variant.
fn put_field(message: &mut Vec<u8>, code: u8, signature: u8, text: &str) {
    align(message, 8);
    message.extend([code, 1, signature, 0]);
    put_text(message, text);
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    align(bytes, 4);
    put_length(bytes, text.len());
    bytes.extend(text.as_bytes());
    bytes.push(0);
}
