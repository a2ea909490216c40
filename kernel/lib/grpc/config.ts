/** The keys of a gRPC listener, for the schema of a plugin's section. */

import { LISTENS } from '../network/index.ts'
import { type TInteger, type TNumber, type TString, Type } from '../schema/index.ts'

const MIB = 1_048_576
const bytes = (value: number, minimum: number, maximum: number, description: string): TInteger =>
  Type.Integer({ default: value, minimum, maximum, description })
/** Another name of a key, for the schema. */
const aliased = (alias: string | undefined): { alias?: string } => (alias === undefined ? {} : { alias })
const also = (alias: string | undefined): string => (alias === undefined ? '' : `; also ${alias}`)
const seconds = (value: number, minimum: number, description: string, alias?: string): TNumber =>
  Type.Number({ ...aliased(alias), default: value, minimum, maximum: 86_400, description: description + also(alias) })

/** As in a plugin's section. */
export interface GrpcConfig {
  addr: string
  max_receive_bytes: number
  max_send_bytes: number
  max_concurrent_streams: number
  max_calls: number
  stream_window_bytes: number
  connection_window_bytes: number
  send_buffer_bytes: number
  max_buffered_bytes: number
  keepalive_secs: number
  keepalive_timeout_secs: number
  idle_timeout_secs: number
}

/** Members for `Type.Object`. @param aliases other names of keys, with their section. @param settable flags and environment variables that set `addr`. */
export function grpcListenerKeys(
  port: number,
  aliases: Partial<Record<keyof GrpcConfig, string>> = {},
  settable: { settable?: { flag?: string; env: readonly string[] } } = {},
): { addr: TString } & Record<Exclude<keyof GrpcConfig, 'addr' | `${string}_secs`>, TInteger> & Record<Extract<keyof GrpcConfig, `${string}_secs`>, TNumber> {
  return {
    addr: Type.String({
      ...LISTENS,
      ...aliased(aliases.addr),
      ...settable,
      default: `127.0.0.1:${port}`,
      description: `Address of the listener, host:port; port 0 takes any free one${also(aliases.addr)}`,
    }),
    max_receive_bytes: bytes(64 * MIB, 1024, 2 ** 31 - 1, 'Bytes of one message from a client, also after decompression; above: RESOURCE_EXHAUSTED'),
    max_send_bytes: bytes(64 * MIB, 1024, 2 ** 31 - 1, 'Bytes of one message to a client; above: RESOURCE_EXHAUSTED'),
    max_concurrent_streams: bytes(
      256,
      1,
      1_000_000,
      'Calls that one connection may have under way; clients hold further ones back. One that begins twice as many at once (and more than 100), those that it cancels included, is ended with ENHANCE_YOUR_CALM',
    ),
    max_calls: bytes(
      32_768,
      1,
      100_000_000,
      'Calls that all connections together have under way, those that wait for their client included: each takes some 20 KB. Above, a connection that has its share of them is refused further ones as UNAVAILABLE; others get theirs still',
    ),
    stream_window_bytes: bytes(4 * MIB, 65_535, 2 ** 31 - 1, 'HTTP/2 flow control: bytes that a client may send ahead within one call'),
    connection_window_bytes: bytes(16 * MIB, 65_535, 2 ** 31 - 1, 'HTTP/2 flow control: bytes that a client may send ahead within one connection'),
    send_buffer_bytes: bytes(4 * MIB, 1024, 2 ** 31 - 1, 'Bytes of one answer that wait for a slow client before its query is held back'),
    max_buffered_bytes: bytes(
      512 * MIB,
      65_536,
      Number.MAX_SAFE_INTEGER,
      'Bytes that all calls together hold of messages not sent whole, being worked on or kept, of answers not taken, and of calls without credentials or whose credentials are being looked at; above, the call whose client was idle longest ends as UNAVAILABLE. Keep it above max_receive_bytes and max_send_bytes',
    ),
    keepalive_secs: seconds(60, 0, 'Time between pings to a client; 0 = none', aliases.keepalive_secs),
    keepalive_timeout_secs: seconds(20, 0.01, 'A client that does not answer a ping for this long is cut off', aliases.keepalive_timeout_secs),
    idle_timeout_secs: seconds(
      600,
      0,
      'A connection without a call under way is closed after this long; clients make another when they need one. Streams keep theirs; 0 = none is closed',
    ),
  }
}
