import { basename, join, resolve, sep } from 'node:path'
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { defaultName, fileName, parseExport } from './request.ts'

const parse = (text: string) => parseExport(Buffer.from(text))

t.test('times keep their digits, wherever they stand', (t) => {
  const plan = { measurement: 'm', start: 1700000000000000001n, end: 1700000000000000003n }
  t.same(parse('{"measurement":"m","range":{"start":1700000000000000001,"end":1700000000000000003}}'), plan)
  t.same(parse('{"measurement":"m","start":1700000000000000001,"end":"1700000000000000003"}'), plan)
  t.same(parse('{"measurement":"m","start":1700000000000000001,"range":{"end":1700000000000000003}}'), plan)
  t.same(parse('{"measurement":"m","start":-9223372036854775808,"range":{},"output_path":"x"}'), { measurement: 'm', start: -(2n ** 63n), outputPath: 'x' })
  t.end()
})

t.test('what cannot be read is refused, naming the member', (t) => {
  for (const [body, message] of [
    ['', /body is not JSON/],
    ['\xff{}', /body is not JSON/],
    ['[]', /the body is not an object/],
    ['1', /the body is not an object/],
    ['{"measurement":""}', /"measurement" is empty/],
    ['{"measurement":1}', /"measurement" is not a string/],
    ['{"measurement":"m","table":"x"}', /"table" is not a known member/],
    ['{"measurement":"m","__proto__":1}', /"__proto__" is not a known member/],
    ['{"measurement":"m","range":1}', /"range" is not an object/],
    ['{"measurement":"m","range":{"from":1}}', /"range\.from" is not a known member/],
    ['{"measurement":"m","start":1,"range":{"start":1}}', /"range\.start" is given twice/],
    ['{"measurement":"m","start":1.5}', /"start" is not an integer/],
    ['{"measurement":"m","start":1e3}', /"start" is not an integer/],
    ['{"measurement":"m","start":null}', /"start" is not an integer/],
    ['{"measurement":"m","end":9223372036854775808}', /"end" does not fit/],
    ['{"measurement":"m","start":2,"end":1}', /"start" is after end/],
    ['{"measurement":"m","output_path":{}}', /"output_path" is not a string/],
  ] as const)
    t.throws(() => parseExport(Buffer.from(body, 'latin1')), { code: 'INVALID_REQUEST', message }, body)
  t.throws(() => parseExport(Buffer.from('{}')), { code: 'INVALID_BODY', message: /"measurement" is missing/ })
  t.end()
})

t.test('of a path only the file name counts', (t) => {
  for (const [path, name] of [
    ['a.parquet', 'a.parquet'],
    ['/etc/a.PARQUET', 'a.PARQUET'],
    ['../../a', 'a.parquet'],
    ['C:\\data\\a b.parquet', 'a b.parquet'],
    ['x/..a/ü', 'ü.parquet'],
  ])
    t.equal(fileName(path), name)
  for (const path of ['', '/', 'a/', '.', '..', 'a/..', '.a', '..\\.ssh', 'a\0b', 'a\nb', '\ud800', 'x'.repeat(193), 'é'.repeat(97)])
    t.throws(() => fileName(path), { code: 'INVALID_REQUEST', message: /"output_path"/ }, JSON.stringify(path))
  t.end()
})

t.test('the default name is made of the measurement and the instant', (t) => {
  const now = Date.UTC(2026, 10, 20, 12, 0, 1, 5)
  t.equal(defaultName('cpu', now), 'cpu-20261120T120001005Z.parquet')
  t.equal(defaultName('../../etc/passwd', now), '__.._etc_passwd-20261120T120001005Z.parquet')
  t.equal(defaultName('.hidden ü', now), '_hidden__-20261120T120001005Z.parquet')
  t.equal(fileName(defaultName('m'.repeat(500), now)).length, 128)
  t.end()
})

t.test('no name leaves the directory or hides in it', (t) => {
  const seed = Number(process.env.SVC_FUZZ_SEED ?? Date.now() % 2 ** 31)
  t.comment(`seed ${seed}`)
  const random = seeded(seed)
  const fragments = [
    '..',
    '.',
    '/',
    '\\',
    '//',
    '\0',
    '\n',
    ' ',
    'a',
    'é',
    '%2e%2e%2f',
    '\u2215',
    '\uff0f',
    '\ud800',
    '~',
    'parquet',
    '.parquet',
    'C:',
    '\u202e',
    '-',
  ]
  const directory = resolve('/data/exports')
  let accepted = 0
  for (let i = 0; i < 20_000; i++) {
    const text = Array.from({ length: Math.floor(random() * 10) }, () => fragments[Math.floor(random() * fragments.length)]).join('')
    const names = [defaultName(text, 0)]
    try {
      names.push(fileName(text))
      accepted++
    } catch (error) {
      if ((error as { code?: string }).code !== 'INVALID_REQUEST') throw error
    }
    for (const name of names) {
      const path = resolve(directory, name)
      const isInside =
        path === join(directory, basename(name)) && path.startsWith(directory + sep) && !name.startsWith('.') && name.toLowerCase().endsWith('.parquet')
      if (!isInside) t.fail(`${JSON.stringify(text)} became ${JSON.stringify(name)}`)
    }
  }
  t.ok(accepted > 1000 && accepted < 19_000, `${accepted} accepted`)
  t.end()
})
