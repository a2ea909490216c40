/** Finds plugins and storage engines: by id in this package, by path relative to the config file, by npm package name. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { findPackageJSON } from 'node:module'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { OpenState, OwnState } from './cli/command.ts'
import type { Schema } from './config/section.ts'
import { HOME, loadHint, otherCopies, placeOf } from './lib/modules/index.ts'
import { didYouMean } from './lib/text/index.ts'
import { isPlugin, type Plugin } from './plugin.ts'
import type { DeclaredSqlFunction } from './storage/sql-functions.ts'
import type { StateContext, StateEngine } from './storage/state-engine.ts'
import type { Capability, StorageContext, StorageEngine } from './storage/storage.ts'
import { VERSION } from './version.ts'

/** `.ts` in the repository, `.js` in the published package. */
const EXTENSION = import.meta.url.slice(import.meta.url.lastIndexOf('.'))

/** What a storage engine's index exports. */
export interface EngineModule {
  createEngine(context: StorageContext): StorageEngine
  configSchema: Schema
  /** All that it can have. */
  capabilities: Iterable<Capability>
  /** Those that the section does not give it, each with what to do for it, such as "name a disk in database.x". @param config resolved, or with what is wrong in it. */
  lacking?(config: Record<string, unknown>): Readonly<Record<string, string>>
  /** Values for keys that [database] does not have, where another of its keys says so; they come before the schema's defaults. @param given as written, unchecked. */
  presets?(given: Readonly<Record<string, unknown>>): Record<string, unknown>
  /** What else would end a start, without opening anything. @throws SvcError for values that do not fit together, or an environment that lacks what they name. */
  check?(config: Record<string, unknown>): void
  /** With the capability `sql_functions`. @throws SvcError for one that the engine cannot have, such as of the name of a function of its own. */
  checkSqlFunctions?(functions: readonly DeclaredSqlFunction[]): void | Promise<void>
  /** What the resolved section means, in lines for `svc check`. */
  explain?(config: Record<string, unknown>): string[]
  /**
   * Reads what an owner has in the state store, beside a server that may run; undefined when there is no database yet.
   * @throws Error in one line for one that cannot be read. Absent where nobody but the engine's own process can read it.
   */
  openState?(config: Record<string, unknown>, owner: string): Promise<OpenState | undefined>
  /** Likewise, to read and to write, where no server runs. @throws Error in one line, also where one does. */
  ownState?(config: Record<string, unknown>, owner: string): Promise<OwnState | undefined>
}

/** What a state store's index exports. */
export interface StateModule {
  createState(context: StateContext): StateEngine
  configSchema: Schema
  /** What else would end a start, without opening anything. @throws SvcError */
  check?(config: Record<string, unknown>): void
  /** What the resolved section means, in lines for `svc check`. */
  explain?(config: Record<string, unknown>): string[]
}

/** Other folders of storage/ hold what engines share, their tests, and stores of state. */
export const BUILTIN_ENGINES: readonly string[] = ['clickhouse', 'embedded', 'forward', 'memory']

export function builtinPlugins(): string[] {
  const folder = join(HOME, 'plugins')
  if (!existsSync(folder)) return []
  return readdirSync(folder)
    .filter((id) => existsSync(join(folder, id, `index${EXTENSION}`)))
    .sort()
}

/** The HTTP routes of built-in plugins by id, as `npm run docs` has written them: no plugin is loaded to learn whose path it would be. */
export function builtinRoutes(): ReadonlyMap<string, readonly string[]> {
  const file = join(HOME, 'plugins', 'routes.json')
  const texts: Record<string, string> = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {}
  return new Map(Object.entries(texts).map(([id, paths]) => [id, paths.split(' ')]))
}

/** @throws Error in one line that says what was looked for. */
export async function loadPlugin(name: string, folder: string): Promise<Plugin> {
  const file = locate('plugins', name, folder)
  if (file === undefined) {
    if (isPath(name))
      throw new Error(
        `cannot find plugin "${name}": there is no such .ts or .js file, nor a folder with an index or a package.json, at ${resolve(folder, name)}`,
      )
    const hint = existsSync(resolve(folder, name))
      ? `a path begins with "./": did you mean "./${name}"?`
      : didYouMean(name, builtinPlugins(), `the built-in plugins are ${builtinPlugins().join(', ')}`)
    throw new Error(`cannot find plugin "${name}": it is no built-in id, nor a package installed at ${folder}; ${hint}`)
  }
  const plugin = (await importFile('plugin', name, file)).default
  if (!isPlugin(plugin)) throw new Error(`cannot load plugin "${name}": ${file} has no default export made by definePlugin`)
  return plugin
}

export async function loadEngine(name: string, folder: string): Promise<EngineModule> {
  const file = locate('storage', name, folder)
  if (file === undefined) {
    const hint = didYouMean(name, BUILTIN_ENGINES, `the engines are ${BUILTIN_ENGINES.join(', ')}`)
    throw new Error(`cannot find storage engine "${name}": it is no built-in engine, file, or package; ${hint}`)
  }
  const module = await importFile('storage engine', name, file)
  if (typeof module.createEngine !== 'function' || module.configSchema === undefined || module.capabilities === undefined) {
    throw new Error(
      `cannot load storage engine "${name}": ${file} must export createEngine, configSchema and capabilities${typeof module.createState === 'function' ? '; it keeps state: name it as state.engine' : ''}`,
    )
  }
  return module as unknown as EngineModule
}

/** @throws Error in one line. */
export async function loadState(name: string, folder: string): Promise<StateModule> {
  const file = locate('storage', name, folder)
  if (file === undefined) throw new Error(`cannot find state store "${name}": it is no built-in one, file, or package; "database" and "postgres" are built in`)
  const module = await importFile('state store', name, file)
  if (typeof module.createState !== 'function' || module.configSchema === undefined)
    throw new Error(`cannot load state store "${name}": ${file} must export createState and configSchema; "database" and "postgres" are built in`)
  return module as unknown as StateModule
}

const isPath = (name: string): boolean => isAbsolute(name) || /^\.\.?[/\\]/.test(name)

function locate(kind: string, name: string, folder: string): string | undefined {
  if (isPath(name)) {
    const file = resolve(folder, name)
    const found = [file, join(file, 'index.ts'), join(file, 'index.js')].find((f) => existsSync(f) && /\.[cm]?[jt]s$/.test(f))
    return found ?? (existsSync(join(file, 'package.json')) ? entryOf(join(file, 'package.json')) : undefined)
  }
  if (/^[a-z][a-z0-9_]*$/.test(name)) {
    const builtin = join(HOME, kind, name, `index${EXTENSION}`)
    if (existsSync(builtin)) return builtin
  }
  for (const base of [folder, HOME]) {
    const manifest = packageManifest(name, base)
    if (manifest !== undefined) return entryOf(manifest)
  }
  return undefined
}

function packageManifest(name: string, base: string): string | undefined {
  if (!/^(@[\w.-]+\/)?[\w.-]+$/.test(name)) return undefined
  try {
    return findPackageJSON(name, pathToFileURL(join(base, 'noop.js')))
  } catch {
    return undefined
  }
}

/** A package's entry for `import`; `require.resolve` would refuse packages that are ES modules only. */
function entryOf(manifest: string): string {
  const { exports, main } = JSON.parse(readFileSync(manifest, 'utf8')) as { exports?: unknown; main?: string }
  const root = typeof exports === 'object' && exports !== null && '.' in exports ? (exports as Record<string, unknown>)['.'] : exports
  return join(dirname(manifest), conditionOf(root) ?? main ?? 'index.js')
}

function conditionOf(target: unknown): string | undefined {
  if (typeof target === 'string') return target
  if (typeof target !== 'object' || target === null) return undefined
  for (const condition of ['node', 'import', 'default']) {
    const found = conditionOf((target as Record<string, unknown>)[condition])
    if (found !== undefined) return found
  }
  return undefined
}

async function importFile(kind: string, name: string, file: string): Promise<Record<string, unknown>> {
  const cannot = `cannot load ${kind} "${name}"`
  let module: Record<string, unknown>
  try {
    module = await import(pathToFileURL(file).href)
  } catch (error) {
    const cause = error instanceof Error ? error.message : String(error)
    const hint = /requested module 'svcdb(?:'|\/)/.test(cause) ? `; it is written for another version of svcdb than ${VERSION}` : loadHint(cause, file)
    throw new Error(`${cannot}: ${cause}${placeOf(error)}${hint}`, { cause: error })
  }
  const [other] = otherCopies()
  if (other === undefined) return module
  throw new Error(
    `${cannot}: ${file} uses the copy of svcdb in ${other}, and the server that runs is the one in ${HOME}; have the plugin list svcdb in peerDependencies, install both in the same folder, and start the svc of that folder (npx svc)`,
  )
}
