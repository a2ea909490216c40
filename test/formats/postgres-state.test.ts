/** The worked example of docs/formats/postgres-state.md is what the code computes. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { listDigest } from '../../storage/postgres/digest.ts'

const page = readFileSync(new URL('../../docs/formats/postgres-state.md', import.meta.url), 'utf8')

t.test('the digest of a list', async (t) => {
  const { rows, sha256 } = JSON.parse(/```json digest\n([^`]*)```/.exec(page)?.[1] ?? '') as { rows: [string, string][]; sha256: string }
  t.equal(listDigest(rows.map(([key, text]) => ({ key, text })))?.toString('hex'), sha256)
  t.equal(listDigest([]), null)
})
