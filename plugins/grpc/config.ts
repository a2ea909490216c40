import { alsoNamed, settableBy } from 'svcdb'
import { grpcListenerKeys } from 'svcdb/lib/grpc'
import { type Static, Type } from 'svcdb/lib/schema'

export const configSchema = Type.Object({
  ...grpcListenerKeys(
    4243,
    {
      addr: 'server.grpc_addr',
      keepalive_secs: 'server.grpc_keepalive_secs',
      keepalive_timeout_secs: 'server.grpc_keepalive_timeout_secs',
    },
    settableBy({ flag: 'grpc-bind', env: ['SVC_GRPC_BIND', 'SVC_GRPC_ADDR'] }),
  ),
  reflection: Type.Boolean({
    ...alsoNamed('server.grpc_reflection'),
    default: false,
    description: 'Lets clients ask for the proto file (grpc.reflection.v1 and v1alpha), without credentials; also server.grpc_reflection',
  }),
  stream_batch_size: Type.Integer({
    ...alsoNamed('server.stream_batch_size'),
    default: 10_000,
    minimum: 1,
    maximum: 10_000_000,
    description: 'Points of a StreamWrite that are written together; also server.stream_batch_size',
  }),
  stream_batch_bytes: Type.Integer({
    default: 8_388_608,
    minimum: 1024,
    maximum: 1_073_741_824,
    description: 'Bytes of messages of a StreamWrite that are written together',
  }),
  stream_batch_interval_ms: Type.Integer({
    ...alsoNamed('server.stream_batch_interval_ms'),
    default: 100,
    minimum: 1,
    maximum: 60_000,
    description: 'How long points of a StreamWrite wait for others; also server.stream_batch_interval_ms',
  }),
  backpressure_wait_secs: Type.Integer({
    default: 30,
    minimum: 0,
    maximum: 3600,
    description:
      'How long a StreamWrite waits for room when flushing or merging is behind, its client held back, before it fails with BACKPRESSURE; 0 = not at all',
  }),
  max_fields_per_point: Type.Integer({ default: 1024, minimum: 1, maximum: 65_536, description: 'Fields of one point; one with more is refused' }),
  max_reported_errors: Type.Integer({
    default: 16,
    minimum: 1,
    maximum: 10_000,
    description: 'Refused points of one write whose reasons are kept; the others are counted',
  }),
  max_query_memory_bytes: Type.Integer({
    default: 0,
    minimum: 0,
    maximum: 1_099_511_627_776,
    description:
      'Bytes of rows that one query holds to put them in order, about, and of columns that are written as Arrow (32 MiB at least); above: INVALID_ARGUMENT; 0 = as much as all of a query thread, server.max_held_memory',
  }),
  series_cache_bytes: Type.Integer({
    default: 67_108_864,
    minimum: 65_536,
    maximum: 4_294_967_296,
    description: 'Memory for measurements with tags, as sent, that are recognised without being parsed again, for each namespace; emptied when full',
  }),
  max_cached_namespaces: Type.Integer({ default: 16, minimum: 1, maximum: 10_000, description: 'Namespaces that have a series cache at one time' }),
  max_subscribers: Type.Integer({ default: 100, minimum: 1, maximum: 10_000, description: 'Subscribe calls at once on this node; further ones are refused' }),
  max_subscribers_per_namespace: Type.Integer({
    default: 20,
    minimum: 1,
    maximum: 10_000,
    description: 'Subscribe calls at once of one namespace, with server.multi_tenancy',
  }),
  slow_subscriber_secs: Type.Integer({
    default: 30,
    minimum: 1,
    maximum: 3600,
    description: 'How long a subscriber may keep a message waiting, behind send_buffer_bytes of others, before its call ends with BACKPRESSURE',
  }),
  subscribe_progress_secs: Type.Integer({
    default: 15,
    minimum: 1,
    maximum: 3600,
    description: 'Time without a change after which a subscriber is sent its position',
  }),
  max_subscribe_secs: Type.Integer({
    default: 3600,
    minimum: 1,
    maximum: 86_400,
    description: 'How long a Subscribe lasts before it ends, with OK, so that the next one is admitted anew',
  }),
})

export type GrpcPluginConfig = Static<typeof configSchema>
