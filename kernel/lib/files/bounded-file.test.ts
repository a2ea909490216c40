import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { readBounded } from './bounded-file.ts'

t.test('a file up to its bound, and nothing else', async (t) => {
  const folder = t.testdir({ empty: '' })
  const at = (name: string) => join(folder, name)
  const bytes = Buffer.from(Array.from({ length: 100_000 }, (_, i) => i % 251))
  writeFileSync(at('file'), bytes)
  t.ok((await readBounded(at('file'), bytes.length)).equals(bytes))
  t.equal((await readBounded(at('empty'), 0)).length, 0)
  await t.rejects(readBounded(at('file'), bytes.length - 1), { message: 'it has more than 99999 bytes' })
  await t.rejects(readBounded(at('none'), 1), { code: 'ENOENT' })
  mkdirSync(at('folder'))
  await t.rejects(readBounded(at('folder'), 1), { message: 'it is no file' })
  execFileSync('mkfifo', [at('pipe')])
  await t.rejects(readBounded(at('pipe'), 1), { message: 'it is no file' }, 'and it does not wait for a writer')
})
