import { spawnSync } from 'node:child_process'
import { existsSync, openSync } from 'node:fs'
import t from 'tap'
import { seeded } from './lib/random/index.ts'
import { printable } from './lib/text/index.ts'
import { LOG_FORMATS, type LogFormat, Logs } from './log.ts'

function logged(format: LogFormat, write: (logs: Logs) => void): string {
  let text = ''
  write(new Logs({ level: 'debug', format, destination: { write: (line) => void (text += line) } }))
  return text
}

/** What acts on terminals, hides or turns text, or ends a line for some reader. */
const HOSTILE = [
  '\n',
  '\r',
  '\r\n',
  '\u001b[2J',
  '\u001b]0;x\u0007',
  '\u0000',
  '\u0008',
  '\u007f',
  '\u0085',
  '\u009b31m',
  '\u2028',
  '\u2029',
  '\u202e',
  '\u2066',
  '\u200b',
  '\ufeff',
  '\ud800',
  '\u{e0041}',
]
const FORGED = '2026-01-01T00:00:00.000Z INFO  kernel: ready url=http://evil'
const PLAIN = ['cpu', ' ', '"', '\\', 'é', '\u{1f600}', '    at ', 'caused by: ', '{', '}', FORGED]
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const LEFT = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]|\p{Surrogate}|[\u{e0000}-\u{e007f}]/u
const ENTRY: Record<LogFormat, RegExp> = {
  text: /^\d{4}-\d\d-\d\dT[\d:.]+Z (ERROR|WARN ) /,
  compact: /^(ERROR|WARN ) /,
  json: /^\{"level":"(error|warn)".*\}$/,
}

const messageOf = (line: string): string => (JSON.parse(line) as { err: { message: string } }).err.message

t.test('whatever text an entry has, it is one line that begins as entries do, and the lines of its stack do not', async (t) => {
  const seed = Number(process.env.SEED ?? 20_263)
  t.comment(`SEED=${seed}`)
  const random = seeded(seed)
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)]
  const text = (): string => Array.from({ length: 1 + Math.floor(random() * 8) }, () => pick(random() < 0.5 ? HOSTILE : PLAIN)).join('')
  const failures: string[] = []
  for (const format of LOG_FORMATS) {
    for (let i = 0; i < 400; i++) {
      const names = [text(), text(), text(), text()]
      const error = new TypeError(`cannot read "${names[0]}"`, { cause: new Error(names[1]) })
      const out = logged(format, (logs) => {
        logs.child('http').error({ err: error, path: names[2], [names[3]]: [names[2]] }, `request ${names[1]} failed`)
        logs.child(names[0]).warn(names[2])
      })
      const lines = out.slice(0, -1).split('\n')
      const entries = lines.filter((line) => ENTRY[format].test(line))
      const problems = [
        LEFT.test(out) && 'a character is left',
        !out.endsWith('\n') && 'its end is missing',
        entries.length !== 2 && `there are ${entries.length} entries`,
        !lines.every((line) => ENTRY[format].test(line) || line.startsWith('  ')) && 'a line is neither an entry nor a part of one',
        format === 'json' && messageOf(entries[0]) !== `cannot read "${names[0]}": ${names[1]}` && 'the message is another',
      ].filter((problem) => problem !== false)
      if (problems.length > 0) failures.push(`${problems.join(', ')}: ${JSON.stringify(out)}`)
    }
  }
  t.same(failures.slice(0, 3), [])
})

t.test('an error is printed with its frames and its causes', async (t) => {
  const out = logged('text', (logs) => logs.root.error({ err: new Error('outer', { cause: new RangeError('inner\nFORGED') }) }, 'failed'))
  t.match(out, /ERROR failed\n {2}Error: outer\n {4}at .*log\.test\.ts.*\n[\s\S]*\n {2}caused by: RangeError: inner\\nFORGED\n {4}at /)
})

t.test('printable text is left as it is', async (t) => {
  for (const text of ['', 'plain', 'Zürich 東京 \u{1f600}', 'a\\nb', '"quoted"']) t.equal(printable(text), text)
  t.equal(printable('a\nb\u001b[0m\u0085\u202e'), 'a\\nb\\u001b[0m\\u0085\\u202e')
})

t.test('a log that has no room ends nothing', { skip: existsSync('/dev/full') ? false : 'there is no /dev/full' }, async (t) => {
  const script = `
    const { Logs } = await import(${JSON.stringify(import.meta.resolve('./log.ts'))})
    for (const format of ${JSON.stringify(LOG_FORMATS)}) {
      const log = new Logs({ level: 'info', format }).child('storage')
      for (let i = 0; i < 3; i++) log.error('the disk is full')
      await new Promise(setImmediate)
    }
    process.stdout.write('alive')`
  const child = spawnSync(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', openSync('/dev/full', 'w')] })
  t.equal(child.stdout.toString(), 'alive')
  t.equal(child.status, 0)
})
