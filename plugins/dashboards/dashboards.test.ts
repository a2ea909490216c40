import { execFileSync, spawnSync } from 'node:child_process'
import { link, mkdir, mkdtemp, readdir, readFile, rename, rm, symlink, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { boot, ManualClock, run } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { until } from '../../test/support/until.ts'
import plugin from './index.ts'
import { MODELS } from './library.ts'

const PATH = '/api/v1/dashboards/export'
const shipped = (await readdir(MODELS)).sort()
const model = (title: string, more: object = {}) => JSON.stringify({ title, panels: [], ...more })

async function setup(t: Test, section: Record<string, unknown> = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'svc-dashboards-'))
  const lines: string[] = []
  const missing: string[] = []
  const clock = new ManualClock()
  const log = (line: string) => {
    const { name, msg, level } = JSON.parse(line) as { name?: string; msg: string; level: string | number }
    if (name === 'dashboards') (msg.includes('there is no such folder') ? missing : lines).push(`${level} ${msg}`)
  }
  const node = await boot({ plugins: [plugin], config: { dashboards: { directory: join(folder, 'own'), ...section } }, clock, log })
  t.teardown(async () => {
    await node.stop()
    await rm(folder, { recursive: true, force: true })
  })
  const own = join(folder, 'own')
  const titles = async (): Promise<string[]> => {
    // The folder is looked at once a second.
    await clock.advance(1000)
    const answer = await node.inject(PATH)
    if (answer.statusCode !== 200) throw new Error(answer.body)
    return (answer.json() as { title: string }[]).map(({ title }) => title)
  }
  const metric = async (line: string): Promise<number> => {
    const found = (await node.inject('/metrics')).body.split('\n').find((each) => each.startsWith(`svc_${line} `))
    return Number(found?.split(' ').at(-1))
  }
  const bare = (await titles()).length
  /** Those of the folder. */
  const added = async () => (await titles()).slice(bare)
  return { node, folder, own, lines, missing, clock, titles, added, metric }
}

t.test('what is shipped is served whole, without a folder and without a storage', async (t) => {
  const { node, lines, missing, own } = await setup(t)
  t.equal(missing.length, 1, 'a folder that the config names and is not there is said')
  t.match(missing[0], `cannot find the dashboards of ${JSON.stringify(own)}`)
  const answer = await node.inject(PATH)
  t.equal(answer.statusCode, 200)
  t.match(answer.headers['content-type'], /^application\/json/)
  const models = await Promise.all(shipped.map(async (name) => JSON.parse(await readFile(join(MODELS, name), 'utf8'))))
  t.ok(models.length >= 5)
  t.same(answer.json(), models)
  t.same(lines, [])
})

t.test('the rules are served as they are in the file', async (t) => {
  const { node } = await setup(t)
  const answer = await node.inject('/api/v1/dashboards/rules')
  t.match(answer.headers['content-type'], /^application\/yaml/)
  t.equal(answer.body, await readFile(new URL('./rules/svc.yml', import.meta.url), 'utf8'))
})

t.test('dashboards of the folder come behind, or in the place of those with their file name or uid, and changes are seen', async (t) => {
  const { node, own, titles, added, metric, lines } = await setup(t)
  const before = await titles()
  await mkdir(own)
  await writeFile(join(own, 'b.json'), `\ufeff${model('B', { big: 1 })}`.replace('1', '12345678901234567890'))
  await writeFile(join(own, 'a.json'), ` ${model('Ä', { uid: 'a' })}\n`)
  await writeFile(join(own, 'c.txt'), 'no dashboard')
  await writeFile(join(own, '.hidden.json'), model('hidden'))
  t.same(await titles(), [...before, 'Ä', 'B'])
  t.match((await node.inject(PATH)).body, /12345678901234567890/, 'numbers are as they were')
  await writeFile(join(own, shipped[0]), model('by its name'))
  await writeFile(join(own, 'other.json'), model('by its uid', { uid: shipped[1].replace('.json', '') }))
  t.same(await titles(), ['by its name', 'by its uid', ...before.slice(2), 'Ä', 'B'])
  t.same(
    [await metric('dashboards{source="shipped"}'), await metric('dashboards{source="own"}'), await metric('dashboards_refused')],
    [before.length - 2, 4, 0],
  )
  await writeFile(join(own, 'b.json'), model('b2'))
  await rm(join(own, 'a.json'))
  await rm(join(own, 'other.json'))
  await rm(join(own, shipped[0]))
  t.same(await added(), ['b2'])
  await rm(own, { recursive: true })
  t.same(await titles(), before)
  t.same(lines, [])
})

t.test('a bad file is named once, and takes nothing down', async (t) => {
  const { own, added, titles, metric, lines } = await setup(t, { max_file_bytes: 4096 })
  await mkdir(own)
  const bad: [string, string | Buffer, RegExp][] = [
    ['array.json', '[]', /it is no JSON object/],
    ['binary.json', Buffer.from([0x7b, 0xff, 0xfe, 0x7d]), /it is not UTF-8/],
    ['cut.json', '{"title": "cut", "panels": [', /it is no JSON \(/],
    ['deep.json', `{"title": "deep", "panels": ${'['.repeat(1500)}${']'.repeat(1500)}}`, /more than 64 levels/],
    ['empty.json', '', /it is no JSON \(/],
    ['large.json', model('x'.repeat(5000)), /more than 4096 bytes; raise dashboards.max_file_bytes/],
    ['null.json', 'null', /it is no JSON object/],
    ['panels.json', '{"title": "no panels"}', /it has no panels/],
    ['title.json', '{"panels": []}', /it has no title/],
    ['uid.json', model('uid', { uid: 7 }), /its uid is no text/],
    ['wrapped.json', '{"dashboard": {"title": "wrapped", "panels": []}}', /keep what is under its member dashboard/],
  ]
  for (const [name, text] of bad) await writeFile(join(own, name), text)
  await mkdir(join(own, 'folder.json'))
  execFileSync('mkfifo', [join(own, 'pipe.json')])
  await writeFile(join(own, 'one.json'), model('one', { uid: 'same' }))
  await writeFile(join(own, 'two.json'), model('two', { uid: 'same' }))
  await writeFile(join(own, 'zero.json'), model('zero'))
  t.same(await added(), ['one', 'zero'])
  const all = [
    ...bad,
    ['folder.json', '', /it is not a file/],
    ['pipe.json', '', /it is not a file/],
    ['two.json', '', /"one\.json" has the same uid/],
  ] as typeof bad
  for (const [name, , cause] of all) {
    const said = lines.filter((line) => line.includes(`${name}"`) && line.includes('cannot serve dashboard'))
    t.equal(said.length, 1, name)
    t.match(said[0], cause)
    t.match(said[0], /^(warn|40) cannot serve dashboard ".*": .*; .*/)
  }
  t.equal(lines.length, all.length)
  t.equal(await metric('dashboards_refused'), all.length)
  await titles()
  t.equal(lines.length, all.length, 'it is said once')
  await writeFile(join(own, 'title.json'), model('mended'))
  t.same(await added(), ['one', 'mended', 'zero'])
  await writeFile(join(own, 'title.json'), '{}')
  await added()
  t.equal(lines.length, all.length + 1, 'and again when it is bad again')
})

t.test('links stay in the folder', async (t) => {
  const { folder, own, added, lines } = await setup(t)
  await mkdir(join(own, 'inner'), { recursive: true })
  await writeFile(join(folder, 'secret.json'), model('secret'))
  await mkdir(join(folder, 'own-too'))
  await writeFile(join(folder, 'own-too/secret.json'), model('secret'))
  await writeFile(join(own, 'inner/inside.json'), model('inside'))
  await symlink(join(folder, 'secret.json'), join(own, 'absolute.json'))
  await symlink('../secret.json', join(own, 'relative.json'))
  await symlink('../own-too/secret.json', join(own, 'sibling.json'))
  await symlink('/etc/passwd', join(own, 'system.json'))
  await symlink('/dev/zero', join(own, 'device.json'))
  await symlink('nothing.json', join(own, 'dangling.json'))
  await symlink('loop.json', join(own, 'loop.json'))
  await symlink(join(folder), join(own, 'up'))
  await symlink('up/secret.json', join(own, 'twice.json'))
  await symlink('inner/inside.json', join(own, 'inside.json'))
  t.same(await added(), ['inside'])
  t.equal(lines.filter((line) => line.includes('leads out of the folder')).length, 6)
  t.equal(lines.filter((line) => /it leads to nothing|ELOOP/.test(line)).length, 2)
  // The folder itself may be a link.
  await rename(own, join(folder, 'moved'))
  await symlink(join(folder, 'moved'), own)
  t.same(await added(), ['inside'])
})

t.test('count and size are bounded', async (t) => {
  const { own, added, lines, titles } = await setup(t, { max_files: 3, max_file_bytes: 2048, max_total_bytes: 4096 })
  await mkdir(own)
  for (const name of ['a', 'b', 'c', 'd', 'e']) await writeFile(join(own, `${name}.json`), model(name))
  t.same(await added(), ['a', 'b', 'c'])
  t.match(lines, [/it has more than 3, and "d\.json" and those after it are left out; raise dashboards.max_files/])
  for (const name of ['a', 'b', 'c']) await writeFile(join(own, `${name}.json`), model(name, { text: 'ä'.repeat(900) }))
  t.same(await added(), ['a', 'b'])
  t.match(lines.at(-1), /c\.json": with it the folder has more than 4096 bytes; raise dashboards.max_total_bytes/)
  // A file that grows without end, as far as its size says.
  await truncate(join(own, 'a.json'), 2 ** 40)
  t.same(await added(), ['b', 'c'])
  await rm(own, { recursive: true })
  await writeFile(own, 'no folder')
  const without = await titles()
  t.equal(without.length, shipped.length)
  t.match(lines.at(-1), /cannot read all dashboards of .*ENOTDIR/)
})

t.test('max_files = 0 looks at no folder', async (t) => {
  const { own, added } = await setup(t, { max_files: 0 })
  await mkdir(own)
  await writeFile(join(own, 'a.json'), model('a'))
  t.same(await added(), [])
})

t.test('the folder is looked at once a second, however many ask, and what did not change is not read again', async (t) => {
  const { node, own, clock, added } = await setup(t)
  await mkdir(own)
  await writeFile(join(own, 'a.json'), model('a'))
  t.same(await added(), ['a'])
  await writeFile(join(own, 'b.json'), model('b'))
  const answers = await Promise.all(Array.from({ length: 50 }, () => node.inject(PATH)))
  t.ok(answers.every(({ body }) => !body.includes('"b"')))
  await clock.advance(1000)
  const later = await Promise.all(Array.from({ length: 50 }, () => node.inject(PATH)))
  t.ok(later.every(({ body }) => body.includes('"b"')))
  await link(join(own, 'a.json'), join(own, 'z.json'))
  t.same(await added(), ['a', 'b', 'a'])
})

t.test('the default folder is below the data directory', async (t) => {
  const lines: string[] = []
  const node = await boot({ plugins: [plugin, 'native'], storage: 'embedded', log: (line) => void lines.push(line) })
  t.teardown(() => node.stop())
  t.notMatch(lines.join(), /cannot find the dashboards/, 'it need not be there')
  await mkdir(join(node.dataDir, 'dashboards'))
  await writeFile(join(node.dataDir, 'dashboards/a.json'), model('mine'))
  let titles: string[] = []
  await until('it is there', async () => {
    titles = (await node.inject(PATH)).json().map(({ title }: { title: string }) => title)
    return titles.includes('mine')
  })
  t.equal(titles.length, shipped.length + 1)
})

t.test('svc export-dashboards copies all files into a folder, and replaces none', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'svc-dashboards-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const svc = async (...args: string[]) => {
    const said = { out: '', err: '' }
    const write = (to: 'out' | 'err') => (text: string) => {
      said[to] += text
    }
    const code = await run(args, { env: {}, out: write('out'), err: write('err') } as never)
    return { code, ...said }
  }
  const to = join(folder, 'new/dashboards')
  t.match(await svc('export-dashboards', to), { code: 0, err: '' })
  t.same((await readdir(to)).sort(), [...shipped, 'svc.yml'].sort())
  for (const name of shipped) t.equal(await readFile(join(to, name), 'utf8'), await readFile(join(MODELS, name), 'utf8'))
  t.match(await svc('export-dashboards', to), { code: 1, err: /it is there already/ })
  t.match(await svc('export-dashboards'), { code: 1, err: /name one folder/ })
})

t.test('svc export-dashboards says so where no folder can be made', { skip: process.platform !== 'linux' && 'there is no /proc' }, async (t) => {
  const code = `import { run } from 'svcdb/testkit'
process.exitCode = await run(process.argv.slice(1), { env: {}, out() {}, err: (text) => process.stderr.write(text) })`
  for (const folder of ['/proc/nothing', '/proc/nothing/below', '/etc/hosts/below', '/etc/hosts']) {
    // A process of its own: one that tries for ever would never end.
    const args = ['--input-type=module', '-e', code, '--', 'export-dashboards', folder]
    const options = { cwd: import.meta.dirname, timeout: 30_000, killSignal: 'SIGKILL', encoding: 'utf8' } as const
    const { status, stderr, signal } = spawnSync(process.execPath, args, options)
    t.match({ status, signal, stderr }, { status: 1, signal: null, stderr: /^svc: cannot make the folder "\/.*name one that you may write to\n$/ }, folder)
  }
})
