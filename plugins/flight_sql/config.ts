import { settableBy } from 'svcdb'
import { grpcListenerKeys } from 'svcdb/lib/grpc'
import { type Static, Type } from 'svcdb/lib/schema'

export const configSchema = Type.Object({
  ...grpcListenerKeys(4244, { addr: 'server.flight_addr' }, settableBy({ flag: 'flight-bind', env: ['SVC_FLIGHT_BIND', 'SVC_FLIGHT_ADDR'] })),
  batch_rows: Type.Integer({
    default: 65_536,
    minimum: 1,
    maximum: 16_777_216,
    description: 'Rows of one record batch of an answer',
  }),
  batch_bytes: Type.Integer({
    default: 2_097_152,
    minimum: 1024,
    maximum: 1_073_741_824,
    description:
      'Bytes of one record batch of an answer, about, and fewer rows then; keep it below max_send_bytes and below what clients take, which for some is 4 MiB a message',
  }),
  max_batch_rows: Type.Integer({
    // A batch is taken apart in turns, and written as one.
    default: 1_048_576,
    minimum: 1,
    maximum: 2_147_483_647,
    description: 'Rows of one record batch that is put',
  }),
  max_decompressed_bytes: Type.Integer({
    default: 67_108_864,
    minimum: 1024,
    maximum: 4_294_967_296,
    description:
      'Bytes of one record batch that is put once its buffers are decompressed (LZ4 or ZSTD); likewise of the texts that its rows refer to in dictionaries',
  }),
  max_fields_per_point: Type.Integer({ default: 1024, minimum: 1, maximum: 65_536, description: 'Fields of one record batch that is put' }),
  max_batches_in_flight: Type.Integer({
    default: 4,
    minimum: 1,
    maximum: 64,
    description: 'Record batches of one put that are being written at the same time; the client is held back meanwhile',
  }),
  backpressure_wait_secs: Type.Integer({
    default: 30,
    minimum: 0,
    maximum: 3600,
    description: 'How long a put waits for room when flushing or merging is behind, its client held back, before it fails with BACKPRESSURE; 0 = not at all',
  }),
  handshake_timeout_secs: Type.Number({
    default: 10,
    minimum: 0.01,
    maximum: 3600,
    description: 'How long a Handshake without credentials in its metadata waits for its first message, which has them',
  }),
  max_sessions: Type.Integer({
    default: 10_000,
    minimum: 1,
    maximum: 1_000_000,
    description: 'Logins kept at one time; the one used longest ago goes first, of those who have more than their share',
  }),
  session_lifetime_secs: Type.Integer({
    default: 86_400,
    minimum: 1,
    maximum: 31_536_000,
    description: 'How long the token of a login works after it was last used',
  }),
  max_prepared_statements: Type.Integer({
    default: 10_000,
    minimum: 1,
    maximum: 1_000_000,
    description:
      'Prepared statements kept at one time; the one used longest ago goes first, of those of a caller, under multi_tenancy of a namespace, with more than its share',
  }),
  max_prepared_bytes: Type.Integer({
    default: 67_108_864,
    minimum: 4096,
    maximum: 4_294_967_296,
    description: 'Memory for the texts and bound values of all prepared statements',
  }),
  prepared_lifetime_secs: Type.Integer({
    default: 3600,
    minimum: 1,
    maximum: 2_147_483,
    description: 'How long a prepared statement is kept after it was last used',
  }),
})

export type FlightSqlConfig = Static<typeof configSchema>
