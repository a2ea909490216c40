/** The lock file is that of every platform: `npm ci` installs by it, and leaves out without a word what it does not list. */
import t from 'tap'
import { read } from '../support/tree.ts'

interface Entry {
  version?: string
  integrity?: string
  resolved?: string
  optional?: true
  os?: string[]
  cpu?: string[]
  libc?: string[]
  dependencies?: Record<string, string>
  optionalDependencies?: Record<string, string>
}

const { packages } = JSON.parse(read('package-lock.json')) as { packages: Record<string, Entry> }
const manifest = JSON.parse(read('package.json')) as Record<'dependencies' | 'devDependencies' | 'optionalDependencies', Record<string, string>>

/** As Node.js looks for a package: beside the one that needs it, then further up. */
function found(from: string, name: string): string | undefined {
  for (let at = from; ; at = at.slice(0, Math.max(0, at.lastIndexOf('node_modules/') - 1))) {
    const path = `${at === '' ? '' : `${at}/`}node_modules/${name}`
    if (packages[path] !== undefined) return path
    if (at === '') return undefined
  }
}

t.test('whatever a package can do with is listed, for each platform, with the hash of its content', async (t) => {
  let optional = 0
  for (const [path, { dependencies, optionalDependencies = {} }] of Object.entries(packages)) {
    for (const name of Object.keys(dependencies ?? {})) t.ok(found(path, name), `${path} needs ${name}`)
    for (const name of Object.keys(optionalDependencies)) t.ok(found(path, name), `${path} has ${name} for some platform`)
    optional += Object.keys(optionalDependencies).length
  }
  t.ok(optional > 50, `${optional} of them are optional`)
  for (const [path, { integrity }] of Object.entries(packages)) if (path !== '') t.match(integrity, /^sha512-/, path)
})

t.test('the native parts are there for Linux and macOS, on both processors', async (t) => {
  const families = ['@duckdb/node-bindings-', '@lmdb/lmdb-', '@napi-rs/snappy-', '@biomejs/cli-', '@typescript/typescript-']
  for (const family of families) {
    const entries = Object.entries(packages).filter(([path]) => path.startsWith(`node_modules/${family}`))
    const has = (os: string, cpu: string, libc: string): boolean =>
      entries.some(([, entry]) => entry.os?.includes(os) && entry.cpu?.includes(cpu) && (entry.libc === undefined || entry.libc.includes(libc)))
    for (const cpu of ['x64', 'arm64']) {
      for (const libc of ['glibc', 'musl']) t.ok(has('linux', cpu, libc), `${family} for linux-${cpu} with ${libc}`)
      t.ok(has('darwin', cpu, ''), `${family} for darwin-${cpu}`)
    }
  }
})

t.test('it goes with package.json, and names no host to install from', async (t) => {
  for (const kind of ['dependencies', 'devDependencies', 'optionalDependencies'] as const)
    t.same((packages[''] as unknown as typeof manifest)[kind], manifest[kind], kind)
  t.same(
    Object.entries(packages).filter(([, { resolved }]) => resolved !== undefined),
    [],
  )
})
