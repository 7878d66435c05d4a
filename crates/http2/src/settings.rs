//! SETTINGS (RFC 9113 section 6.5).

use crate::error::{Error, ErrorCode};

/// What the peer said, or the initial values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) header_table_size: u32,
    pub(crate) max_concurrent_streams: u32,
    pub(crate) initial_window_size: u32,
    pub(crate) max_frame_size: u32,
    pub(crate) max_header_list_size: u32,
    pub(crate) enable_connect_protocol: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            header_table_size: 4096,
            max_concurrent_streams: u32::MAX,
            initial_window_size: 65_535,
            max_frame_size: 16_384,
            max_header_list_size: u32::MAX,
            enable_connect_protocol: false,
        }
    }
}

pub(crate) const HEADER_TABLE_SIZE: u16 = 1;
pub(crate) const ENABLE_PUSH: u16 = 2;
pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 3;
pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;
pub(crate) const MAX_FRAME_SIZE: u16 = 5;
pub(crate) const MAX_HEADER_LIST_SIZE: u16 = 6;
/// RFC 8441.
pub(crate) const ENABLE_CONNECT_PROTOCOL: u16 = 8;
/// RFC 9218 section 2.1.
pub(crate) const NO_RFC7540_PRIORITIES: u16 = 9;

impl Settings {
    /// Applies one parameter; unknown ones are ignored.
    pub(crate) fn apply(&mut self, id: u16, value: u32, is_from_server: bool) -> Result<(), Error> {
        let fail = |code, reason| Err(Error { code, reason });
        match id {
            HEADER_TABLE_SIZE => self.header_table_size = value,
            ENABLE_PUSH if value > 1 || is_from_server && value == 1 => {
                return fail(ErrorCode::PROTOCOL_ERROR, "invalid SETTINGS_ENABLE_PUSH (6.5.2)");
            }
            MAX_CONCURRENT_STREAMS => self.max_concurrent_streams = value,
            INITIAL_WINDOW_SIZE if value > 0x7fff_ffff => {
                return fail(ErrorCode::FLOW_CONTROL_ERROR, "SETTINGS_INITIAL_WINDOW_SIZE above 2^31-1 (6.5.2)");
            }
            INITIAL_WINDOW_SIZE => self.initial_window_size = value,
            MAX_FRAME_SIZE if !(16_384..=16_777_215).contains(&value) => {
                return fail(ErrorCode::PROTOCOL_ERROR, "SETTINGS_MAX_FRAME_SIZE out of range (6.5.2)");
            }
            MAX_FRAME_SIZE => self.max_frame_size = value,
            MAX_HEADER_LIST_SIZE => self.max_header_list_size = value,
            ENABLE_CONNECT_PROTOCOL if value > 1 || value == 0 && self.enable_connect_protocol => {
                return fail(ErrorCode::PROTOCOL_ERROR, "invalid SETTINGS_ENABLE_CONNECT_PROTOCOL (RFC 8441, 3)");
            }
            ENABLE_CONNECT_PROTOCOL => self.enable_connect_protocol = value == 1,
            NO_RFC7540_PRIORITIES if value > 1 => {
                return fail(ErrorCode::PROTOCOL_ERROR, "invalid SETTINGS_NO_RFC7540_PRIORITIES (RFC 9218, 2.1)");
            }
            _ => {}
        }
        Ok(())
    }
}
