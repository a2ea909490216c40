import { AUTH_RANK, type CommandCall, definePlugin, SvcError, tokenOf } from 'svcdb'
import { configSchema, type SignedTokensConfig } from './config.ts'
import { errors, makeToken, readToken } from './token.ts'

async function printToken(call: CommandCall): Promise<number> {
  const { subject, 'ttl-secs': given = '3600' } = call.flags
  const section = (await call.config()).section as SignedTokensConfig | undefined
  if (section === undefined) throw new Error('cannot make a token: the config does not select signed_tokens')
  if (subject === undefined || !/^[\w.@-]{1,128}$/.test(subject)) throw new Error('cannot make a token: --subject is letters, digits and "._@-", at most 128')
  const seconds = Number(given)
  if (!Number.isInteger(seconds) || seconds < 1 || seconds > section.max_ttl_secs)
    throw new Error(`cannot make a token with --ttl-secs "${given}": it is 1 to ${section.max_ttl_secs}, signed_tokens.max_ttl_secs`)
  call.out(`${makeToken({ subject, expiresAt: Date.now() + seconds * 1000 }, section.key.reveal())}\n`)
  return 0
}

export default definePlugin({
  id: 'signed_tokens',
  api: '1.0',
  summary: 'Lets in who shows a token that was signed with the key',
  stability: 'beta',
  config: configSchema,
  errors,
  commands: [
    {
      name: 'make-token',
      summary: 'Prints a signed token',
      flags: { subject: { description: 'Who it stands for' }, 'ttl-secs': { description: 'How long it lasts, default 3600' } },
      run: printToken,
    },
  ],
  setup(svc, config) {
    svc.auth.authenticator((credentials) => {
      const token = tokenOf(credentials)
      const claims = token === undefined ? undefined : readToken(token, config.key.reveal(), svc.clock.now())
      if (claims === undefined || claims instanceof SvcError) return claims
      const { subject, expiresAt } = claims
      return { principal: subject, method: 'signed_token', claims: { sub: subject }, namespaces: [], admin: false, expiresAt }
    }, AUTH_RANK.token)
  },
})
