/** Where keys come from: the section, the names of older documents, the environment; and that they are shown nowhere. */
import { readConfig, resolveConfig } from 'svcdb/testkit'
import t from 'tap'
import type { WebhooksConfig } from './config.ts'
import webhooks from './index.ts'
import { signingKeys } from './signature.ts'
import { SECRETS } from './testing.ts'

t.test('signing secrets by the environment, with commas between, win over the file', async (t) => {
  const read = readConfig({}, { SVC_WEBHOOK_SIGNING_SECRET: ` ${SECRETS.join(', ')},` })
  const tree = { plugins: [], webhooks: { signing_secrets: ['whsec_MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAw'] } }
  const config = await resolveConfig({ ...read, tree }, { plugins: [webhooks] })
  const { signing_secrets } = config.sections.get('webhooks') as WebhooksConfig
  t.same(
    signing_secrets.map((secret) => secret.reveal()),
    SECRETS,
  )
  t.equal(JSON.stringify(signing_secrets), '["[redacted]","[redacted]"]')
  const [first] = signingKeys(signing_secrets)
  t.equal(first.toString('base64'), SECRETS[0].slice('whsec_'.length))
})

t.test('a bad list is refused without the values', async (t) => {
  const tree = { plugins: [], webhooks: { signing_secrets: [SECRETS[0], '', 7] } }
  const problems = await resolveConfig({ tree: tree as never, file: 'svc.toml', folder: '.', overrides: new Map() }, { plugins: [webhooks] }).catch(
    (error: Error) => error.message,
  )
  t.match(problems, /webhooks\.signing_secrets\[1\]/)
  t.notOk(String(problems).includes(SECRETS[0].slice(6)))
})
