import { Secret, type Static, Type } from 'svcdb'

export const configSchema = Type.Object({
  key: Secret.schema({ minLength: 32, description: 'Key that signs the tokens; whoever has it makes tokens' }),
  max_ttl_secs: Type.Integer({ default: 86_400, minimum: 1, maximum: 31_536_000, description: 'For how long a token is made at most' }),
})

export type SignedTokensConfig = Static<typeof configSchema>
