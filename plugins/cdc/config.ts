import { type Static, Type } from 'svcdb/lib/schema'

export const configSchema = Type.Object({
  max_subscribers: Type.Integer({ default: 100, minimum: 1, maximum: 10_000, description: 'Streams at once on this node; further ones are refused' }),
  max_subscribers_per_namespace: Type.Integer({
    default: 20,
    minimum: 1,
    maximum: 10_000,
    description: 'Streams at once of one namespace, with server.multi_tenancy',
  }),
  max_buffered_bytes: Type.Integer({
    default: 1_048_576,
    minimum: 65_536,
    maximum: 268_435_456,
    description: 'Bytes of events that wait for one reader; with as many no more are made for it until it has taken some',
  }),
  slow_reader_secs: Type.Integer({ default: 30, minimum: 1, maximum: 3600, description: 'How long a reader may take nothing before its stream is ended' }),
  keep_alive_secs: Type.Integer({ default: 15, minimum: 1, maximum: 300, description: 'Time without an event after which a comment is sent' }),
  max_stream_secs: Type.Integer({
    default: 3600,
    minimum: 1,
    maximum: 86_400,
    description:
      'How long a stream lasts before it is ended, so that the next one is admitted anew: what a caller may read is decided then; a key that was revoked ends its streams within a second',
  }),
})

export type CdcConfig = Static<typeof configSchema>
