/** What the documents claim is what the code does. */

import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import type { Schema } from 'svcdb'
import { boot, builtinPlugins, loadPlugin, readConfig, resolveConfig } from 'svcdb/testkit'
import t from 'tap'
import { minimalConfig } from '../../scripts/minimal-config.ts'
import { configKeys, declaredMetrics, generatedDocs, otherMetrics, withTable } from '../../scripts/reference.ts'
import { fences, section, tableRows } from '../support/markdown.ts'
import { bare } from '../support/server.ts'
import { filesBelow, ROOT, read } from '../support/tree.ts'

const run = promisify(execFile)
const documents = filesBelow('.', /\.md$/)
const plugins = await Promise.all(builtinPlugins().map((id) => loadPlugin(id, '.')))

t.setTimeout(300_000)
// The process metrics are those of Linux.
t.test('the generated pages and tables are up to date', { skip: process.platform === 'linux' ? false : 'it needs Linux' }, async (t) => {
  const files = await generatedDocs((file) => (filesBelow(dirname(file)).includes(file) ? read(file) : undefined))
  t.ok(files.size > 4)
  for (const [file, text] of files) t.equal(filesBelow(dirname(file)).includes(file) ? read(file) : '', text, `${file}; npm run docs writes it`)
})

t.test('a table that is filled in goes where there is one, and comes where there is none', async (t) => {
  const page = (metrics: string) => `# a\n\n## Configuration\n\n| Key |\n|---|\n| x |\n\n## Metrics\n\n${metrics}## Errors\n\n| Status |\n|---|\n| 400 |\n`
  const table = ['| Metric |', '|---|', '| svc_a |']
  const filled = page(`${table.join('\n')}\n\n`)
  t.equal(withTable(page('| Metric |\n|---|\n| svc_old |\n\n'), 'Metrics', table), filled, 'in place of another')
  t.equal(withTable(page('\n\n'), 'Metrics', table), filled, 'where one has gone')
  t.equal(withTable(page(''), 'Metrics', table), filled, 'where there was none')
  t.equal(withTable(page('Two counters.\n\n'), 'Metrics', table), page(`${table.join('\n')}\n\nTwo counters.\n\n`), 'before a text')
  t.equal(withTable(filled, 'Metrics', []), page(''), 'what is no more goes')
  t.equal(withTable(page('None of its own.\n\n'), 'Metrics', []), page('None of its own.\n\n'), 'and a text stays')
})

t.test('every metric of a plugin is in its README, with its labels', async (t) => {
  const declared = await declaredMetrics(plugins)
  for (const { id } of plugins) {
    const documented = tableRows(section(read(`plugins/${id}/README.md`), 'Metrics') ?? '').map(([name]) => name)
    t.same(documented.length, declared.filter(({ owner }) => owner === id).length, id)
    for (const { name, owner } of declared)
      if (owner === id)
        t.ok(
          documented.some((text) => text.includes(name)),
          `${id}: ${name}`,
        )
  }
})

t.test('every config key is documented where it belongs, and no other', async (t) => {
  for (const { id, config } of plugins) {
    const documented = tableRows(section(read(`plugins/${id}/README.md`), 'Configuration') ?? '').map(([key]) => key)
    t.same(
      documented,
      configKeys(config as Schema | undefined).map(({ key }) => key),
      id,
    )
  }
})

t.test('every metric that documents name exists, and a full node exposes those of the reference', async (t) => {
  const { config, remove } = await minimalConfig(
    plugins.map(({ id }) => id),
    ['/metrics'],
  )
  const node = await boot({ plugins, storage: 'embedded', config })
  t.teardown(async () => {
    await node.stop()
    await remove()
  })
  const text = (await node.inject('/metrics')).body
  const exposed = new Set([...text.matchAll(/^# TYPE (\S+)/gm)].map((match) => match[1]))
  // A full node forwards nothing.
  for (const { name } of await otherMetrics()) exposed.add(name)
  const reference = new Set(fencesAndTables(read('docs/reference/metrics.md')))
  t.same(
    [...exposed].filter((name) => !reference.has(name)),
    [],
  )
  t.same(
    [...reference].filter((name) => !exposed.has(name)),
    [],
  )
  // Examples have plugins of their own.
  for (const file of documents.filter((name) => !name.startsWith('examples/'))) {
    const unknown = fencesAndTables(read(file)).filter((name) => !exposed.has(name.replace(/_(bucket|sum|count)$/, '')) && !exposed.has(name))
    t.same(unknown, [], file)
  }
})

t.test('paths that the commands of documents ask for are routes', async (t) => {
  const { config, remove } = await minimalConfig(
    plugins.map(({ id }) => id),
    ['/api/v1/openapi.json'],
  )
  const node = await boot({ plugins, storage: 'embedded', config })
  t.teardown(async () => {
    await node.stop()
    await remove()
  })
  const { paths } = (await node.inject('/api/v1/openapi.json')).json()
  const routes = Object.keys(paths).map((path) => new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`))
  const asked = documents.flatMap((file) =>
    fences(read(file))
      .filter(({ language }) => language === 'sh')
      .flatMap(({ text }) => [...text.matchAll(/\bcurl\b[^\n]*?:8086(\/(?:api|v1)\/[^\s'"?$]+)/g)].map(([, path]) => ({ file, path }))),
  )
  t.ok(asked.length > 40, `${asked.length} commands`)
  // The operator API has a description of its own.
  for (const { file, path } of asked)
    if (!path.startsWith('/api/v1/plane'))
      t.ok(
        routes.some((route) => route.test(path)),
        `${file}: ${path}`,
      )
})

/** Names of metrics, wherever they stand; modules that protoc makes of svc.proto are none. */
function fencesAndTables(markdown: string): string[] {
  return [...markdown.matchAll(/\bsvc_(?!pb2)[a-z][a-z0-9_]*\b/g)].map((match) => match[0])
}

t.test('every TOML example is a config that the kernel takes', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'svc-documents-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  let checked = 0
  for (const file of documents) {
    for (const { language, text, line } of fences(read(file))) {
      if (language !== 'toml' || /^\s*# (telegraf|prometheus|other)/.test(text)) continue
      const id = /^plugins\/(\w+)\//.exec(file)?.[1]
      // An excerpt in a plugin's README is of a node with that plugin.
      const toml = /^plugins = /m.test(text) || id === undefined ? text : `plugins = ["${id}"]\n${text}`
      const name = join(folder, 'svc.toml')
      const from = text.includes('./hello.ts') ? 'examples/hello-world' : undefined
      await writeFile(name, from === undefined ? toml : toml.replaceAll('"./', `"${join(ROOT, from)}/`))
      await t.resolves(resolveConfig(readConfig({ config: name }, {})), `${file}:${line}`)
      checked++
    }
  }
  t.ok(checked >= 4, `${checked} examples`)
})

t.test('every svc.toml of the repository is taken', async (t) => {
  for (const file of filesBelow('.', /(^|\/)svc\.toml$/)) {
    if (existsSync(join(ROOT, 'examples', file.split('/')[1] ?? '', 'package.json'))) continue // needs the package installed; test/package does that
    // Whatever variables it names are set.
    const env = Object.fromEntries([...read(file).matchAll(/\$\{(\w+)\}/g)].map(([, name]) => [name, 'a value that is long enough to be a key of 32 bytes']))
    await t.resolves(resolveConfig(readConfig({ config: join(ROOT, file) }, env)), file)
  }
})

t.test('every library has a README that says what it is, its API with an example, its limits and errors', async (t) => {
  const indexes = filesBelow('kernel/lib', /^kernel\/lib\/[^/]+\/index\.ts$/)
  t.ok(indexes.length > 10)
  for (const index of indexes) {
    const file = join(dirname(index), 'README.md')
    const text = read(file)
    t.match(text, new RegExp(`^# svcdb/lib/${dirname(index).split('/').at(-1)}\n`), file)
    t.same(
      [...text.matchAll(/^## (.*)$/gm)].map(([, title]) => title),
      ['API', 'Limits', 'Errors'],
      file,
    )
    t.ok(
      fences(text).some((fence) => fence.language === 'ts' && fence.text.startsWith('import ')),
      file,
    )
    // Each value that is exported is named, and nothing else.
    const exported = Object.keys(await import(join(ROOT, index)))
    for (const name of exported) t.ok(new RegExp(`\\b${name.replace(/^SAMPLE_.*/, 'SAMPLE_')}`).test(text), `${file} names ${name}`)
  }
})

t.test('the modules that guides and libraries show compile', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'svc-guides-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const files: string[] = []
  for (const file of [...filesBelow('docs', /\.md$/), ...filesBelow('kernel/lib', /\.md$/)]) {
    for (const { language, text, line } of fences(read(file))) {
      if (language !== 'ts' || !text.startsWith('import ')) continue
      const name = join(folder, `${file.replaceAll(/\W/g, '-')}-${line}.ts`)
      await writeFile(name, text)
      files.push(name)
    }
  }
  t.ok(files.length >= 4)
  const paths = {
    svcdb: [join(ROOT, 'kernel/index.ts')],
    'svcdb/agents': [join(ROOT, 'kernel/agents/index.ts')],
    'svcdb/agents/testkit': [join(ROOT, 'plugins/agent_plane/testkit/index.ts')],
    'svcdb/testkit': [join(ROOT, 'kernel/testkit/index.ts')],
    'svcdb/conformance': [join(ROOT, 'storage/conformance/index.ts')],
    'svcdb/lib/*': [join(ROOT, 'kernel/lib/*/index.ts')],
  }
  const compilerOptions = { paths, types: [join(ROOT, 'node_modules/@types/node')], typeRoots: [join(ROOT, 'node_modules/@types')] }
  await writeFile(join(folder, 'package.json'), '{"type":"module"}')
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ extends: join(ROOT, 'tsconfig.json'), compilerOptions, files, include: [] }))
  const outcome = await run('env', bare({}, join(ROOT, 'node_modules/.bin/tsc'), '-p', folder)).catch((error: { stdout: string }) => error)
  t.equal(outcome.stdout, '')
})

t.test('error codes and gRPC statuses that tables name exist', async (t) => {
  const { ERRORS } = await import('../../kernel/lib/errors/index.ts')
  const { STATUS_NAMES } = await import('../../kernel/lib/grpc/status.ts')
  // Those that the example plugins declare are theirs.
  const declared = filesBelow('examples', /\.ts$/).flatMap((file) => [...read(file).matchAll(/declareErrors\(\{ (\w+):/g)].map(([, code]) => code))
  const known = new Set<string>([...Object.keys(ERRORS), ...STATUS_NAMES, ...declared])
  for (const file of documents) {
    for (const [, code] of read(file).matchAll(/^\| `?(?:\d{3} )?([A-Z]+_[A-Z_]+)`?\b/gm)) t.ok(known.has(code), `${file}: ${code}`)
  }
})

t.test('commands that documents name exist', async (t) => {
  const { scripts } = JSON.parse(read('package.json'))
  const named = documents
    .filter((file) => !file.startsWith('examples/'))
    .flatMap((file) => [...read(file).matchAll(/`npm run ([\w:]+)/g)].map(([, name]) => ({ file, name })))
  t.ok(named.length > 8)
  for (const { file, name } of named) t.ok(name in scripts, `${file}: npm run ${name}`)
})

t.test('docs/architecture.md names files that exist, each once', async (t) => {
  const named = [...read('docs/architecture.md').matchAll(/`((?:kernel|plugins|storage)\/[\w./-]+\.ts)`/g)].map(([, file]) => file)
  t.ok(named.length > 40)
  t.same(
    named.filter((file) => !existsSync(join(ROOT, file))),
    [],
    'files that are gone',
  )
  t.same(
    named.filter((file, i) => named.indexOf(file) !== i),
    [],
    'files named twice',
  )
})
