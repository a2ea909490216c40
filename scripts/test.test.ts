/** The runner of the tests: what fails is shown and fails the run, in each way that a file can fail. */
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import t from 'tap'
import { EACH, IN_TURN, TURNS } from './slow-tests.ts'

const GOOD = 'console.log("ok 1 - fine\\nok 2 - later # SKIP no broker\\n1..2\\n# { total: 2, pass: 1, skip: 1 }")'
const BAD = 'console.log("ok 1 - fine\\nnot ok 2 - wrong\\n1..2\\n# { total: 2, pass: 1, fail: 1 }"); process.exitCode = 1'

function run(files: Record<string, string>, ...args: string[]): { status: number | null; text: string } {
  const root = mkdtempSync(join(tmpdir(), 'svc-runner-'))
  t.teardown(() => rmSync(root, { recursive: true }))
  mkdirSync(join(root, 'scripts'))
  for (const name of ['test.ts', 'slow-tests.ts', 'strip-tests.ts']) cpSync(join(import.meta.dirname, name), join(root, 'scripts', name))
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, name)), { recursive: true })
    writeFileSync(join(root, name), text)
  }
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, 'scripts/test.ts'), ...args], { encoding: 'utf8' })
  return { status, text: stdout + stderr }
}

t.test('what passes is counted, and what was skipped is said', async (t) => {
  const { status, text } = run({ 'a.test.ts': GOOD, 'b.test.ts': GOOD })
  t.equal(status, 0)
  t.match(text, /^# \{ total: 4, pass: 2, skip: 2 \}$/m)
  t.match(text, /no broker/)
})

t.test('a failure, a file without a test, an end before the end: each fails the run', async (t) => {
  for (const [text, said] of [
    [BAD, /^not ok 2 - wrong$/m],
    ['', /# has no test/],
    ['console.log("# { total: 1, pass: 1 }"); process.exitCode = 3', /# exit code 3/],
    ['console.log("# { total: 1, pass: 1 }"); process.kill(process.pid, "SIGKILL")', /# exit code SIGKILL/],
    ['throw new Error("broken")', /broken/],
  ] as const) {
    const { status, text: output } = run({ 'a.test.ts': GOOD, 'bad.test.ts': text })
    t.equal(status, 1, text)
    t.match(output, said)
    t.match(output, /^# failed: bad\.test\.ts$/m)
    t.match(output, /fail: 1/)
  }
})

t.test('many files are stripped beforehand, which runs none of them', async (t) => {
  const root = mkdtempSync(join(tmpdir(), 'svc-strip-'))
  t.teardown(() => rmSync(root, { recursive: true }))
  const files = { plain: '', imports: "import { missing } from 'node:fs'\n", dynamic: "await import('node:fs')\n" }
  for (const [name, text] of Object.entries(files))
    writeFileSync(join(root, `${name}.ts`), `${text}const ran: string = ${JSON.stringify(name)}\nconsole.log(ran)\n`)
  const env = { ...process.env, NODE_COMPILE_CACHE: join(root, 'cache'), NODE_DEBUG_NATIVE: 'COMPILE_CACHE' }
  const node = (...args: string[]) => spawnSync(process.execPath, args, { cwd: root, env, encoding: 'utf8' })
  const { status, stdout } = node(join(import.meta.dirname, 'strip-tests.ts'), ...Object.keys(files).map((name) => `${name}.ts`))
  t.equal(status, 0)
  t.notMatch(stdout, /^(plain|imports|dynamic)$/m)
  for (const name of Object.keys(files)) {
    const { stdout, stderr } = node(`${name}.ts`)
    t.match(stdout + stderr, new RegExp(`retrieving transpile cache for StrippedTypeScript \\S+/${name}\\.ts\\.\\.\\.success`), name)
  }
})

t.test('files are chosen by parts of their paths', async (t) => {
  const files = { 'a.test.ts': GOOD, 'bad.test.ts': BAD }
  t.equal(run(files, 'a.test').status, 0)
  t.equal(run(files, 'bad').status, 1)
  const none = run(files, 'nothing')
  t.equal(none.status, 2)
  t.match(none.text, /cannot find tests: no file \*\.test\.ts has "nothing" in its path/)
})

t.test('slow files run when they are asked for', async (t) => {
  const files = { 'a.test.ts': GOOD, 'test/crash/b.test.ts': GOOD, 'plugins/audit/crash.test.ts': GOOD, 'plugins/audit/pages.test.ts': GOOD }
  for (const [args, said] of [
    [[], ['a.test.ts', 'plugins/audit/pages.test.ts']],
    [['--slow'], ['plugins/audit/crash.test.ts', 'test/crash/b.test.ts']],
    [['--all'], ['a.test.ts', 'plugins/audit/crash.test.ts', 'plugins/audit/pages.test.ts', 'test/crash/b.test.ts']],
    [['crash'], ['plugins/audit/crash.test.ts', 'test/crash/b.test.ts']],
  ] as const) {
    const { text } = run(files, ...args)
    t.same([...text.matchAll(/^ok \d+ - (\S+\.test\.ts) # time/gm)].map(([, name]) => name).sort(), said, args.join())
  }
})

t.test('turns that follow each other have all slow files, and each has those that always run', async (t) => {
  const [first] = IN_TURN.filter((name) => name.endsWith('/'))
  const others = Array.from({ length: 9 }, (_, i) => `${first}${i}.test.ts`)
  const files = Object.fromEntries(['a.test.ts', EACH[0], ...others].map((name) => [name, GOOD]))
  const ran = Array.from({ length: TURNS }, (_, turn) => {
    const { text } = run(files, '--slow', '--turn', String(turn + 40))
    return [...text.matchAll(/^ok \d+ - (\S+\.test\.ts) # time/gm)].map(([, name]) => name)
  })
  for (const names of ran) t.ok(names.includes(EACH[0]) && names.length <= 1 + Math.ceil(others.length / TURNS), names.join())
  t.same(
    ran
      .flat()
      .filter((name) => name !== EACH[0])
      .sort(),
    others,
  )
  t.equal(run(files, '--slow', '--turn', 'x').status, 2)
})

t.test('what is called slow is there', async (t) => {
  for (const name of [...EACH, ...IN_TURN]) t.ok(existsSync(join(import.meta.dirname, '..', name)), name)
})

t.test('a file that fails is run again when that is asked for, with the seed that it printed, and listed as unsteady when it passes', async (t) => {
  // Fails unless it is told a seed, as a test whose failure came from the machine passes the second time.
  const once = `console.log('# SVC_SEED=7'); if (process.env.SVC_SEED === '7') { ${GOOD} } else { ${BAD} }`
  const again = run({ 'a.test.ts': GOOD, 'once.test.ts': once }, '--again')
  t.equal(again.status, 0)
  t.match(again.text, /^not ok 2 - wrong$/m, 'the first failure is shown')
  t.match(again.text, /^# unsteady: once\.test\.ts failed among others and passed by itself$/m)
  t.match(again.text, /^# \{ total: 4, pass: 2, skip: 2 \}$/m)
  t.equal(run({ 'once.test.ts': once }).status, 1, 'not by itself')
  const always = run({ 'a.test.ts': GOOD, 'bad.test.ts': BAD }, '--again')
  t.equal(always.status, 1)
  t.match(always.text, /^# failed: bad\.test\.ts$/m)
  const many = run({ 'b.test.ts': once, 'c.test.ts': once, 'd.test.ts': once }, '--again')
  t.equal(many.status, 1, 'three are a fault of the change')
})
