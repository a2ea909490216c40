/** Who may import whom: plugins and storage → the package by its own name, libraries → the errors, and nothing else across. */
import { existsSync } from 'node:fs'
import { builtinModules } from 'node:module'
import { join, posix } from 'node:path'
import t from 'tap'
import { importsOf, reachable, staticImportsOf, targetOf, urlsOf, withoutTypes } from '../../scripts/modules.ts'
import { filesBelow, ROOT, read } from '../support/tree.ts'

interface Import {
  from: string
  /** A file of the repository, or a package's name. */
  to: string
  local: boolean
}

/** Its strings look like imports. */
const OWN = 'test/repository/imports.test.ts'
const sources = ['kernel', 'plugins', 'storage', 'test', 'scripts', 'examples'].flatMap((folder) => filesBelow(folder, /\.ts$/)).filter((file) => file !== OWN)

const imports: Import[] = sources.flatMap((from) =>
  importsOf(read(from)).flatMap((target): Import[] => {
    if (target.startsWith('.') && !/\.\w+$/.test(target)) return [] // the URL of a folder
    if (target.startsWith('.')) return [{ from, to: posix.normalize(posix.join(posix.dirname(from), target)), local: true }]
    if (target.startsWith('node:') || builtinModules.includes(target) || !/^(@[\w.-]+\/)?[a-z]/.test(target) || target.includes(':')) return []
    return [{ from, to: target.startsWith('@') ? target.split('/', 2).join('/') : target.split('/', 1)[0], local: false }]
  }),
)

/** `plugins/sql`, `storage/common`, `kernel`. */
const unit = (file: string): string => {
  const [top, name] = file.split('/')
  return top === 'plugins' || top === 'storage' ? `${top}/${name}` : top
}
const show = ({ from, to }: Import): string => `${from} imports ${to}`
/** Tests, and what only tests and benchmarks use. */
const isTest = (file: string): boolean => /\.(test|bench|fuzz)\.ts$|(^|\/)(testing|test-|bench-data)[^/]*(\.ts$|\/)|^storage\/conformance\//.test(file)
const runtime = imports.filter(({ from }) => !isTest(from))

t.test('the check sees imports of every kind', async (t) => {
  const source = `import a from 'a'\nimport type { B } from './b.ts'\nexport * from './c.ts'\nconst d = await import('d')\nnew URL('./e.ts', import.meta.url)\nmoduleUrl('./i.ts', import.meta.url)\nimport {\n  f,\n} from 'f'\n// import g from 'g'\nimport 'h'`
  t.same(importsOf(source).sort(), ['./b.ts', './c.ts', './e.ts', './i.ts', 'a', 'd', 'f', 'h'])
  t.ok(imports.length > 300)
})

t.test('the kernel imports no plugin and no storage engine', async (t) => {
  t.same(runtime.filter(({ from, to, local }) => local && from.startsWith('kernel/') && !to.startsWith('kernel/') && to !== 'package.json').map(show), [])
})

t.test('plugins and engines import nothing of the kernel but its public surface', async (t) => {
  const exported = Object.keys(JSON.parse(read('package.json')).exports)
  t.same(imports.filter(({ from, to, local }) => local && /^(plugins|storage)\//.test(from) && to.startsWith('kernel/')).map(show), [])
  const named = new Set(
    sources.filter((file) => /^(plugins|storage)\//.test(file)).flatMap((file) => importsOf(read(file)).filter((to) => /^svcdb\b/.test(to))),
  )
  t.ok(named.size > 5)
  for (const name of named) {
    const library = /^svcdb\/lib\/([a-z\d-]+)$/.exec(name)?.[1]
    if (library === undefined) t.ok(exported.includes(name.replace('svcdb', '.')), name)
    else t.ok(existsSync(join(ROOT, `kernel/lib/${library}/index.ts`)), name)
  }
})

t.test('libraries import the errors and one another without circles, and nothing of the kernel, types included', async (t) => {
  const library = (file: string): string | undefined => /^kernel\/lib\/([a-z\d-]+)\//.exec(file)?.[1]
  const own = imports.filter(({ from }) => library(from) !== undefined)
  t.ok(own.length > 100)
  // Tests may boot a node.
  const outside = (to: string): boolean => library(to) === undefined && to !== 'package.json'
  t.same(own.filter(({ from, to, local }) => !isTest(from) && (local ? outside(to) : to === 'svcdb')).map(show), [])
  const below = new Map<string, Set<string>>()
  for (const { from, to } of own) {
    const [user, used] = [library(from) as string, library(to)]
    if (!isTest(from) && used !== undefined && used !== user) below.set(user, (below.get(user) ?? new Set()).add(used))
  }
  t.ok(below.size > 5)
  const leadsTo = (name: string): Set<string> => {
    const reached = new Set(below.get(name))
    for (const next of reached) for (const one of below.get(next) ?? []) reached.add(one)
    return reached
  }
  for (const name of below.keys()) t.notOk(leadsTo(name).has(name), `${name} leads back to itself`)
  // What is exported is meant: nobody reaches past a library's index.
  const index = /^kernel\/lib\/[a-z\d-]+\/index\.ts$/
  const past = imports.filter(({ from, to, local }) => local && library(to) !== undefined && library(from) !== library(to) && !isTest(from) && !index.test(to))
  t.same(past.map(show), [])
  for (const file of filesBelow('kernel/lib', index)) t.notMatch(read(file), /export \*/, file)
})

t.test('plugins import themselves, never one another or the storage', async (t) => {
  const wrong = imports.filter(({ from, to, local }) => local && from.startsWith('plugins/') && unit(to) !== unit(from))
  t.same(wrong.filter(({ from }) => !isTest(from)).map(show), [])
  // A test may compare with another plugin or read files from below test/, but not reach into the storage.
  t.same(wrong.filter(({ to }) => to.startsWith('storage/')).map(show), [])
})

/** What checks and binds statements, for engines that run them elsewhere. */
const SQL_FRONT = ['storage/embedded/sql/bind.ts', 'storage/embedded/sql/check-functions.ts']

t.test('storage engines import themselves, storage/common, and what binds statements of SQL', async (t) => {
  const allowed = (from: string, to: string) => [unit(from), 'storage/common'].includes(unit(to)) || SQL_FRONT.includes(to)
  t.same(runtime.filter(({ from, to, local }) => local && from.startsWith('storage/') && !allowed(from, to)).map(show), [])
})

t.test('nothing imports a test, and only tests import from test/', async (t) => {
  t.same(imports.filter(({ to, local }) => local && /\.test\.ts$/.test(to)).map(show), [])
  t.same(runtime.filter(({ from, to, local }) => local && /^(kernel|plugins|storage)\//.test(from) && to.startsWith('test/')).map(show), [])
})

t.test('modules that are loaded by URL have their name from moduleUrl, which holds in the package as well', async (t) => {
  const bare = sources.filter((file) => /^(kernel|plugins|storage)\//.test(file) && !isTest(file) && /\bnew URL\('[^']+\.ts'/.test(read(file)))
  t.same(bare, [])
})

t.test('threads, jobs and processes load libraries, and never the kernel', async (t) => {
  const server = sources.filter((file) => /^(kernel|plugins|storage)\//.test(file) && !isTest(file) && !file.includes('/simulation/'))
  const entries = new Set(server.flatMap((file) => urlsOf(read(file)).map((path) => targetOf(file, path) as string)))
  for (const file of server) if (/\bnew Worker\(new URL\(import\.meta\.url\)/.test(read(file))) entries.add(file)
  const modules = [...entries].filter((file) => file.endsWith('.ts'))
  for (const one of [
    'storage/embedded/threads/worker/entry.ts',
    'storage/embedded/engine-process/main.ts',
    'plugins/promql/query-job.ts',
    'plugins/cedar/check-thread.ts',
  ])
    t.ok(modules.includes(one), one)
  for (const entry of modules) {
    // With what is imported later: only what has a thread of its own is not followed.
    const loadedBy = reachable(ROOT, [entry], (source) => importsOf(withoutTypes(source)).filter((to) => !urlsOf(source).includes(to)))
    const wrong = [...loadedBy].filter(([file]) => file.startsWith('kernel/') && !file.startsWith('kernel/lib/'))
    t.same(
      wrong.map(([file, by]) => `${file}, by ${by}`),
      [],
      entry,
    )
  }
})

t.test('engine threads, queries that need no DuckDB and statements answered from samples do without its library', async (t) => {
  const entries = ['storage/embedded/threads/worker/main.ts', 'storage/embedded/read/lane.ts', 'plugins/promql/query-job.ts']
  const loadedBy = reachable(ROOT, entries, (source) => staticImportsOf(withoutTypes(source)))
  t.ok(loadedBy.size > 100)
  const loading = [...loadedBy].filter(([file]) => staticImportsOf(withoutTypes(read(file))).some((to) => to.startsWith('@duckdb/')))
  t.same(loading, [])
})

t.test('modules have no cycles', async (t) => {
  // Types are erased, so that only what is loaded counts.
  const values = new Map(sources.map((file) => [file, withoutTypes(read(file))]))
  const loads = new Map<string, string[]>()
  for (const [file, source] of values) {
    const statics = staticImportsOf(source)
    loads.set(
      file,
      statics.filter((target) => target.startsWith('.')).map((target) => posix.normalize(posix.join(posix.dirname(file), target))),
    )
  }
  const done = new Set<string>()
  const cycles: string[] = []
  const visit = (file: string, path: string[]): void => {
    if (path.includes(file)) return void cycles.push([...path.slice(path.indexOf(file)), file].join(' → '))
    if (done.has(file)) return
    for (const next of loads.get(file) ?? []) visit(next, [...path, file])
    done.add(file)
  }
  for (const file of sources) visit(file, [])
  t.same(cycles, [])
})

/** The schema language is a part of the plugin API, and Arrow's types are of svcdb/lib/arrow's. */
const SHARED = new Set(['typebox', 'apache-arrow'])
const isServer = (file: string): boolean => /^(kernel|plugins|storage)\//.test(file) && !isTest(file)

/** Packages whose code, not only types, the server loads, with the folders that import them. */
const libraries = new Map<string, Set<string>>()
for (const from of sources.filter(isServer)) {
  const loaded = new Set(importsOf(withoutTypes(read(from))))
  for (const { to, local } of imports.filter((one) => one.from === from)) {
    const used = [...loaded].some((target) => target === to || target.startsWith(`${to}/`))
    if (!local && to !== 'svcdb' && used) libraries.set(to, (libraries.get(to) ?? new Set()).add(unit(from)))
  }
}

t.test('a library is imported by one folder only', async (t) => {
  t.ok(libraries.size > 5)
  for (const [library, folders] of libraries) if (!SHARED.has(library)) t.equal(folders.size, 1, `${library}: ${[...folders].join(', ')}`)
})

t.test('what the server imports is what package.json lists', async (t) => {
  const { dependencies, devDependencies } = JSON.parse(read('package.json'))
  for (const [library, folders] of libraries) t.ok(library in dependencies, `${library}, imported by ${[...folders].join(', ')}, is a dependency`)
  const others = new Set(imports.filter(({ from, local }) => !local && !/^(examples|test\/interop)\//.test(from) && !isServer(from)).map(({ to }) => to))
  for (const library of others) t.ok(library in dependencies || library in devDependencies || library === 'svcdb', `${library}, imported by tests, is listed`)
})
