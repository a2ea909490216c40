import { type Static, Type } from 'svcdb'

export const configSchema = Type.Object({
  measurement: Type.String({ default: 'webhook', minLength: 1, description: 'Measurement that the readings go to' }),
  max_fields: Type.Integer({ default: 32, minimum: 1, maximum: 1024, description: 'Numbers of one reading; a reading with more is refused' }),
  latest_within_secs: Type.Integer({ default: 86_400, minimum: 1, maximum: 31_536_000, description: 'How far back the latest reading is looked for' }),
})

export type WebhookConfig = Static<typeof configSchema>
