/** The worked examples of docs/formats/namespaces.md are what the code reads and writes. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { decode, definitionOf, storedOf } from '../../plugins/namespaces/definition.ts'

const page = readFileSync(new URL('../../docs/formats/namespaces.md', import.meta.url), 'utf8')
const fences = (name: string): string[] => [...page.matchAll(new RegExp(`\`\`\`json ${name}\\n([^\`]*)\`\`\``, 'g'))].map(([, text]) => text)
const entries = fences('entry').map((text) => JSON.parse(text) as Record<string, unknown>)
const [file] = fences('file')

t.test('the entries decode, and encode to the same', async (t) => {
  const definitions = entries.map(definitionOf)
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
  t.equal(JSON.stringify(definitions.map(storedOf)), JSON.stringify(entries))
})

t.test('the file of version 1 has the same definitions', async (t) => {
  t.same(decode(file), entries.map(definitionOf))
})

t.test('what the page says ends the start does', async (t) => {
  const [acme] = entries
  for (const [entry, message] of [
    [{ ...acme, color: 'red' }, /"color" is not a known member/],
    [{ ...acme, name: 'Left' }, /cannot use namespace/],
    [{ ...acme, quota: { max_series_count: -1 } }, /"max_series_count" is not an integer from 0 to/],
    [{ ...acme, quota: { max_series_count: 2e9 } }, /"max_series_count" is not an integer from 0 to/],
    [{ ...acme, deleting: 'yes' }, /"deleting" is not a boolean/],
    [[], /it is not an object/],
  ] as const)
    t.throws(() => definitionOf(entry), { message })
  for (const [text, message] of [
    [file.replace('"version": 1', '"version": 2'), /version is 2/],
    [file.replace('"left"', '"acme"'), /"acme" occurs twice/],
    [file.slice(0, -10), /it is not JSON/],
  ] as const)
    t.throws(() => decode(text), { message })
})
