import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { fileLines } from './file-lines.ts'

async function linesOf(path: string): Promise<string[]> {
  const lines: string[] = []
  for await (const line of fileLines(path)) lines.push(line)
  return lines
}

t.test('lines end at line feeds and nowhere else', async (t) => {
  const folder = t.testdir({})
  const read = async (text: string) => {
    writeFileSync(join(folder, 'file'), text)
    return linesOf(join(folder, 'file'))
  }
  t.same(await read(''), [])
  t.same(await read('a\n\nb\n'), ['a', '', 'b'])
  t.same(await read('a\nb'), ['a', 'b'])
  t.same(await read('a\u2028b\u2029c\rd\u0085\u000b\n'), ['a\u2028b\u2029c\rd\u0085\u000b'])
  const long = 'ä'.repeat(1_500_000)
  t.ok((await read(`x${long}\n${long}\nz`)).join('\n') === `x${long}\n${long}\nz`, 'a line of several parts, which cut characters')
  await t.rejects(linesOf(join(folder, 'none')), { code: 'ENOENT' })
})
