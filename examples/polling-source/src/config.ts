import { type Static, Type } from 'svcdb'

export const configSchema = Type.Object({
  url: Type.String({ minLength: 1, description: 'What is polled: it answers a JSON object' }),
  every_ms: Type.Integer({ default: 1000, minimum: 10, maximum: 86_400_000, description: 'Milliseconds from one poll to the next' }),
  timeout_ms: Type.Integer({ default: 5000, minimum: 10, maximum: 60_000, description: 'Milliseconds that an answer may take' }),
  max_bytes: Type.Integer({ default: 65_536, minimum: 1, maximum: 16_777_216, description: 'Bytes of an answer; a longer one is an error' }),
  measurement: Type.String({ default: 'poll', minLength: 1, description: 'Measurement of the points' }),
  namespace: Type.String({ default: 'default', description: 'Namespace of the points; under server.multi_tenancy one that exists' }),
})

export type PollConfig = Static<typeof configSchema>
