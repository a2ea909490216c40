/**
 * Compiles what the package consists of to JavaScript below dist/, with declarations of the public entry points. dist/ is a package of its own, by the same
 * name, so that its modules find each other there and not in the sources: `node dist/kernel/main.js` runs it in place.
 *
 * Only what the entry points reach is compiled; types are not checked, which is `npm run check`.
 *
 *   node scripts/build.ts
 */
import { execFile } from 'node:child_process'
import { chmodSync, cpSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { compiledExports, restore } from './manifest.mjs'
import { importsOf, reachable } from './modules.ts'

const ROOT = join(import.meta.dirname, '..')
const DIST = join(ROOT, 'dist')
const TSC = join(ROOT, 'node_modules/typescript/bin/tsc')
const run = promisify(execFile)

if (restore()) process.stdout.write("build: an interrupted npm pack had left the published package.json; the repository's is back\n")

/** What others import by name. */
const entries = globSync(
  [
    'kernel/index.ts',
    'kernel/agents/index.ts',
    'kernel/testkit/index.ts',
    'kernel/lib/*/index.ts',
    'plugins/agent_plane/testkit/index.ts',
    'storage/conformance/index.ts',
  ],
  {
    cwd: ROOT,
  },
)
/** What is found by its path, or run. */
const programs = globSync(['kernel/main.ts', 'plugins/*/index.ts', 'storage/*/index.ts', 'storage/conformance/jobs/*.ts'], { cwd: ROOT })
/** JavaScript that modules with the ending .ts are links to (docs/decisions/050-a-start-loads-what-it-runs.md). */
const scripts = globSync('kernel/**/*.mjs', { cwd: ROOT })
/** Beside the code, and read by it. */
const assets = globSync(['{kernel,plugins,storage}/**/*.proto', 'plugins/dashboards/{models,rules}/*', 'plugins/routes.json'], { cwd: ROOT })

async function compile(name: string, files: readonly string[], options: object): Promise<void> {
  const project = join(DIST, `tsconfig.${name}.json`)
  const given = { extends: '../tsconfig.build.json', compilerOptions: { rootDir: '..', outDir: '.', ...options }, files: files.map((file) => `../${file}`) }
  writeFileSync(project, JSON.stringify(given))
  try {
    await run(process.execPath, [TSC, '-p', project])
  } catch (error) {
    throw new Error(`cannot compile: ${(error as { stdout?: string }).stdout || (error as Error).message}`)
  }
  rmSync(project)
}

const began = performance.now()
rmSync(DIST, { recursive: true, force: true })
mkdirSync(DIST)
const modules = [...reachable(ROOT, [...entries, ...programs], importsOf).keys()].filter((file) => /^(kernel|plugins|storage)\//.test(file))
await Promise.all([compile('js', modules, {}), compile('types', entries, { declaration: true, emitDeclarationOnly: true })])
for (const file of globSync('**/*.d.ts', { cwd: DIST })) {
  const path = join(DIST, file)
  writeFileSync(path, readFileSync(path, 'utf8').replace(/((?:from |import\()['"]\.[^'"]*)\.ts(['"])/g, '$1.js$2'))
}
for (const file of scripts) {
  const code = readFileSync(join(ROOT, file), 'utf8').replace(/((?:from |import\()?['"]\.[^'"]*)\.ts(['"])/g, '$1.js$2')
  writeFileSync(join(DIST, file.replace(/\.mjs$/, '.js')), code)
}
for (const file of assets) {
  mkdirSync(dirname(join(DIST, file)), { recursive: true })
  cpSync(join(ROOT, file), join(DIST, file))
}
const { name, version, type, exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
writeFileSync(join(DIST, 'package.json'), `${JSON.stringify({ name, version, private: true, type, exports: compiledExports(exports, './') }, undefined, 2)}\n`)
chmodSync(join(DIST, 'kernel/main.js'), 0o755)
process.stdout.write(`build: ${modules.length} modules in dist/, ${Math.round(performance.now() - began)} ms\n`)
