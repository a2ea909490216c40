/** Files of policies that grow: checking them takes time in proportion, or they are refused, whatever is wrong with them. */
import t from 'tap'
import { type Family, filled, grows, processorMsOf } from '../../test/support/growth.ts'
import { checkInThread } from './check-thread.ts'

const BYTES = 256_000
const ANY = 'permit(principal, action, resource)'
const when =
  (condition: Family<string>): Family<string> =>
  (bytes) =>
    `${ANY} when { ${condition(bytes)} };`

const FAMILIES: Record<string, Family<string>> = {
  policies: (bytes) => filled(bytes, `${ANY};\n`),
  'faults of syntax, on a line each': (bytes) => filled(bytes, 'permit(;\n'),
  'faults of syntax on one line': (bytes) => filled(bytes, 'permit(;'),
  'actions that nobody knows': (bytes) => filled(bytes, 'permit(principal, action == Svc::Action::"x", resource);\n'),
  'attributes that nobody knows': (bytes) => filled(bytes, (i) => `${ANY} when { principal.a${i} == 1 };\n`),
  parentheses: when((bytes) => `${'('.repeat(bytes / 2)}true${')'.repeat(bytes / 2)}`),
  'members of a set': when((bytes) => `[${filled(bytes, (i) => `${i},`)}1].contains(1)`),
  'conditions of a chain': when((bytes) => `${filled(bytes, 'true && ')}true`),
  'gaps of a pattern': when((bytes) => `"a" like "${filled(bytes, '*a')}"`),
}

for (const [name, family] of Object.entries(FAMILIES)) {
  t.test(name, async (t) => {
    await grows(t, name, { bytes: BYTES }, (bytes) => processorMsOf(() => checkInThread([{ name: 'a.cedar', text: family(bytes) }])))
  })
}
