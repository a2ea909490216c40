/** The worked example of docs/formats/namespaces.md is what the code reads and writes. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { decode, encode } from '../../plugins/namespaces/definition.ts'

const page = readFileSync(new URL('../../docs/formats/namespaces.md', import.meta.url), 'utf8')
const example = /```json\n([^`]*)```/.exec(page)?.[1] ?? ''

t.test('the example decodes, and encodes to the same bytes', async (t) => {
  const definitions = decode(example)
  t.same(definitions, [
    {
      name: 'acme',
      description: 'A customer',
      owner: 'ann',
      auto: false,
      createdAt: 1_700_000_000_000,
      quota: { max_series_count: 50_000, max_ingestion_rate: 20_000 },
      deleting: false,
    },
    { name: 'left', description: '', owner: 'admin', auto: true, createdAt: 1_700_000_001_000, quota: {}, deleting: true },
  ])
  t.equal(encode(definitions.toReversed()), example)
})

t.test('what the page says ends the start does', async (t) => {
  const changed = (change: (whole: { version: unknown; namespaces: Record<string, unknown>[] }) => void): string => {
    const whole = JSON.parse(example)
    change(whole)
    return JSON.stringify(whole)
  }
  for (const [text, message] of [
    [changed((whole) => void (whole.version = 2)), /version is 2/],
    [changed(({ namespaces }) => void (namespaces[0].color = 'red')), /namespaces\[0\]: "color" is not a known member/],
    [changed(({ namespaces }) => void (namespaces[1].name = 'acme')), /"acme" occurs twice/],
    [changed(({ namespaces }) => void (namespaces[1].name = 'Left')), /namespaces\[1\]: cannot use namespace/],
    [changed(({ namespaces }) => void (namespaces[0].quota = { max_series_count: -1 })), /"max_series_count" is not an integer from 0 to/],
    [changed(({ namespaces }) => void (namespaces[0].quota = { max_series_count: 2e9 })), /"max_series_count" is not an integer from 0 to/],
    [changed(({ namespaces }) => void (namespaces[0].deleting = 'yes')), /"deleting" is not a boolean/],
    [example.slice(0, -10), /it is not JSON/],
  ] as const)
    t.throws(() => decode(text), { message })
})
