/**
 * From a TOML file, the environment and flags to what a node runs. Everything wrong is found in one go and reported together,
 * one line each, naming key, file and the nearest valid name. No I/O apart from reading the file and importing plugins.
 */
import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { parse } from 'smol-toml'
import { nameClashes } from '../declared-names.ts'
import { lacksProvider, startOrder } from '../dependency-order.ts'
import { type TProperties, Type } from '../lib/schema/index.ts'
import { builtinPlugins, type EngineModule, loadEngine, loadPlugin, loadState, type StateModule } from '../loader.ts'
import type { Plugin } from '../plugin.ts'
import { OWN_STATE, STATE_CAPABILITIES } from '../storage/state-engine.ts'
import type { Capability } from '../storage/storage.ts'
import { addressesOf, addressProblems, type ListenAddress } from './addresses.ts'
import { type Renamed, refuseNeedless, renameKeys } from './names.ts'
import { type Given, givenBy, KERNEL_OVERRIDES, type Override, overridesOf } from './overrides.ts'
import { type AuthConfig, authSchema, DEFAULT_ENGINE, engineSchema, type ServerConfig, serverSchema, stateSchema, type TlsConfig, tlsSchema } from './schema.ts'
import type { Origin, Schema } from './section.ts'
import { type Mount, mountsOf, Sections } from './section-table.ts'
import { urlProblems } from './server-urls.ts'

export type Tree = Record<string, unknown>

export interface ConfigSource {
  tree: Tree
  /** How messages name the file. */
  file: string
  /** What relative plugin paths and package names are resolved from. */
  folder: string
  /** Values of variables and flags with the name of where they came from, by dotted key. */
  overrides: Given
  /** What is wrong with values whose environment variable is not set, by key: what they would be is not known. */
  unset?: ReadonlyMap<string, string>
  /** What those of plugins are looked for in, once it is known which are selected. */
  flags?: Readonly<Record<string, string | undefined>>
  env?: Readonly<Record<string, string | undefined>>
}

interface StorageConfig {
  engine: string
  module: EngineModule
  config: Record<string, unknown>
  /** What the engine can do with this section. */
  capabilities: ReadonlySet<string>
  /** Keys whose values come from a preset. */
  preset: ReadonlySet<string>
}

export interface StateConfig {
  engine: string
  module: StateModule
  config: Record<string, unknown>
}

export interface NodeConfig {
  file: string
  server: ServerConfig
  tls: TlsConfig | undefined
  auth: AuthConfig
  /** In the order they start. */
  plugins: Plugin[]
  /** Sections that are not there, of plugins that are selected and do nothing without them. */
  off: readonly string[]
  /** By plugin id. */
  sections: Map<string, unknown>
  /** Absent when no plugin needs a storage. */
  storage: StorageConfig | undefined
  /** Where state is kept apart from the storage; absent = the storage has it. */
  state: StateConfig | undefined
  /** Where it listens, HTTP first. */
  listeners: ListenAddress[]
  /** Keys that were written by another name. */
  renamed: Renamed[]
  /** Where a key's value comes from: `default`, `preset`, `file`, a variable or a flag. */
  from(key: string): string
}

const NOTHING: ReadonlyMap<string, string> = new Map()

export class ConfigError extends Error {
  readonly problems: readonly string[]

  constructor(problems: readonly string[]) {
    super(problems.join('\n'))
    this.name = 'ConfigError'
    this.problems = problems
  }
}

/** @param flags by name without dashes. @throws ConfigError when the file cannot be read or parsed. */
export function readConfig(flags: Record<string, string | undefined>, env: Record<string, string | undefined>): ConfigSource {
  const path = flags.config ?? env.SVC_CONFIG
  let tree: Tree = {}
  const unset = new Map<string, string>()
  if (path !== undefined) {
    try {
      tree = parse(readFileSync(path, 'utf8')) as Tree
    } catch (error) {
      const line = (error as { line?: number }).line
      const text = (error as Error).message.split('\n', 1)[0]
      const hint = (error as NodeJS.ErrnoException).code === 'ENOENT' ? '; name a file that is there, as seen from the folder in which svc is started' : ''
      throw new ConfigError([`cannot read config "${path}"${line === undefined ? '' : ` at line ${line}`}: ${text}${hint}`])
    }
    tree = expandVariables(tree, '', path, env, unset) as Tree
  }
  const overrides = givenBy(KERNEL_OVERRIDES, flags, env)
  return { tree, file: path ?? 'the defaults', folder: path === undefined ? process.cwd() : dirname(resolve(path)), overrides, unset, flags, env }
}

/**
 * `${NAME}` in any string value; `$${` stands for the characters `${`.
 * @param unset gets a line for each key that names a variable that is not set.
 */
function expandVariables(value: unknown, path: string, file: string, env: Record<string, string | undefined>, unset: Map<string, string>): unknown {
  if (typeof value === 'string') {
    return value.replace(/\$?\$\{([A-Za-z_]\w*)\}/g, (text, name: string) => {
      if (text.startsWith('$$')) return text.slice(1)
      const given = env[name]
      if (given === undefined && !unset.has(path))
        unset.set(
          path,
          `cannot expand "\${${name}}" of "${path}" in ${file}: the environment variable ${name} is not set; set it, or write $\${${name}} for the text itself`,
        )
      return given ?? ''
    })
  }
  if (Array.isArray(value)) return value.map((item, i) => expandVariables(item, `${path}[${i}]`, file, env, unset))
  if (typeof value !== 'object' || value === null || value instanceof Date) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [name, expandVariables(item, path === '' ? name : `${path}.${name}`, file, env, unset)]),
  )
}

interface ResolveOptions {
  /** Plugins given as objects, beside those that the file names. */
  plugins?: readonly Plugin[]
  /** Takes the place of the engine that the file names. */
  engine?: EngineModule
}

/** Checks everything. @throws ConfigError with all problems. */
export async function resolveConfig(read: ConfigSource, options: ResolveOptions = {}): Promise<NodeConfig> {
  const { unset: missing = NOTHING } = read
  const problems = [...missing.values()]
  const { plugins: listed = [], ...rest } = structuredClone(read.tree)

  const named = withoutDuplicates([...(options.plugins ?? []), ...(await loadSelected(whatIsKnown(listed, missing), read, problems))], read.file, problems)
  // What belongs to a plugin that cannot be loaded is not known, and so not called wrong.
  const complete = problems.length === missing.size && ![...missing.keys()].some((key) => /^plugins(?:\[|$)/.test(key))
  const listedOnce = named.filter((plugin) => !plugin.needsSection || hasSection(rest, plugin.section ?? plugin.id))
  const selected = await withIncluded(listedOnce, read, problems)
  const ofPlugins = await overridesIn(read, [...new Set([...named, ...selected])])
  const source = { ...read, overrides: new Map([...read.overrides, ...givenBy(ofPlugins, read.flags ?? {}, read.env ?? {})]) }
  const plugins = startOrder(
    selected,
    problems,
    named.filter((plugin) => !selected.includes(plugin)),
    lacksProvider(selected) ? await loadBuiltins() : [],
  )
  problems.push(...nameClashes(plugins))

  const mounts = plugins.flatMap((plugin) => mountsOf(plugin).map((mount) => ({ ...mount, plugin })))
  refuseNeedless(rest, source.file, problems)
  const renamed = renameKeys(rest, [{ section: 'server', schema: serverSchema as Schema }, ...mounts], source.file, problems)

  const unset = new Set(missing.keys())
  for (const { alias, key } of renamed) if (unset.has(alias)) unset.add(key)

  const origin: Origin = (key) => source.overrides.get(key)?.from ?? nameOf(source.file, renamed, key)

  const needsStorage = plugins.some((plugin) => (plugin.capabilities ?? []).length > 0)
  problems.push(...overridesWithoutSection(ofPlugins, rest, source))
  const sections = new Sections(rest, source, unset, problems)
  sections.share('server', Object.keys(serverSchema.properties))
  const server = sections.check('server', serverSchema as Schema, origin) as ServerConfig
  const tls = sections.has('tls') ? (sections.check('tls', tlsSchema as Schema, origin) as TlsConfig) : undefined

  // Plugins first: one may own a section within [database].
  claimKeys(mounts, sections, problems)
  const auth = sections.check('auth', authSchema as Schema, origin) as AuthConfig
  const configs = checkMounts(mounts, sections, origin, problems)

  const isListed = (plugin: Plugin): boolean => listedOnce.includes(plugin)
  const state = await resolveState(sections, source, origin, problems)
  const beside = state === undefined ? [] : STATE_CAPABILITIES
  const storage = needsStorage ? await resolveStorage(sections, source, options.engine, beside, plugins.filter(isListed), origin, problems) : undefined
  await sections.refuseRest(needsStorage, complete)

  problems.push(...urlProblems(server, source.file))
  const listeners = [
    ...addressesOf('server', serverSchema as Schema, server),
    ...plugins
      .filter(({ section }) => section !== '')
      .flatMap(({ id, section = id, config }) => addressesOf(section, config as Schema | undefined, configs.get(id))),
  ]
  const known = listeners.filter(({ key }) => !unset.has(key))
  problems.push(...addressProblems(known, source.file))
  if (problems.length > 0) throw new ConfigError(problems)
  // What comes along with another plugin is left out where the engine cannot have it.
  const able = new Set<string>([...(storage?.capabilities ?? []), ...beside])
  const running = plugins.filter((plugin) => isListed(plugin) || (plugin.capabilities ?? []).every((needed) => able.has(needed)))
  return {
    file: source.file,
    server,
    tls,
    auth,
    plugins: running,
    off: named.filter((plugin) => !running.includes(plugin)).map(({ id, section = id }) => section),
    sections: configs,
    storage,
    state: needsStorage ? state : undefined,
    listeners,
    renamed,
    from: origins(source, renamed, storage),
  }
}

type PluginMount = Mount & { plugin: Plugin }

/** Several plugins may have keys in one section, but not the same ones. */
function claimKeys(mounts: readonly PluginMount[], sections: Sections, problems: string[]): void {
  sections.share('auth', Object.keys(authSchema.properties))
  for (const mount of mounts) {
    const claim = sections.claimOf(mount)
    if (claim === undefined) continue
    const taken = sections.taken(claim)
    if (taken !== undefined)
      problems.push(`cannot run plugin "${mount.plugin.id}": its key "${claim.section}.${taken}" belongs to another selected plugin; select one of them`)
    sections.share(claim.section, claim.keys)
  }
}

/** @returns what each plugin is configured with, by its id. */
function checkMounts(mounts: readonly PluginMount[], sections: Sections, origin: Origin, problems: string[]): Map<string, unknown> {
  const configs = new Map<string, unknown>()
  for (const mount of mounts.toSorted((a, b) => b.section.length - a.section.length)) {
    const { plugin, section, schema, member } = mount
    if (sections.owns(section) && sections.claimOf(mount) === undefined)
      problems.push(`cannot run plugin "${plugin.id}": its section [${section}] belongs to another selected plugin; select one of them`)
    const checked = sections.check(section, schema, origin)
    configs.set(plugin.id, member === undefined ? checked : { ...(configs.get(plugin.id) as object | undefined), [member]: checked })
  }
  return configs
}

function origins({ tree, overrides }: ConfigSource, renamed: readonly Renamed[], storage: StorageConfig | undefined): NodeConfig['from'] {
  const written = (key: string) => key.split('.').reduce<unknown>((at, name) => (at as Tree | undefined)?.[name], tree) !== undefined
  return (key) => {
    const given = overrides.get(key)
    if (given !== undefined) return given.from
    if (key.startsWith('database.') && storage?.preset.has(key.slice('database.'.length))) return 'preset'
    return written(key) || renamed.some((each) => each.key === key) ? 'file' : 'default'
  }
}

/** Where a key stands in the file, which may have it by another name. */
function nameOf(file: string, renamed: readonly Renamed[], key: string): string {
  const other = renamed.find((each) => each.key === key)
  return other === undefined ? file : `${file}, where it is "${other.alias}"`
}

/** What a variable is called that somebody may rely upon to keep others out. */
const SECRET_NAME = /SECRET|KEY|TOKEN|PASSWORD/

/** Of the selected plugins; of all built-in ones, which takes time to load, where a variable that looks like a secret is none of those. */
async function overridesIn({ env = {}, file }: ConfigSource, selected: readonly Plugin[]): Promise<Override[]> {
  const own = selected.flatMap(overridesOf)
  const known = new Set([...KERNEL_OVERRIDES, ...own].flatMap((override) => override.env))
  const unknown = Object.keys(env).some((name) => name.startsWith('SVC_') && SECRET_NAME.test(name) && !known.has(name))
  if (!unknown) return own
  const ids = new Set(selected.map(({ id }) => id))
  const others = await Promise.all(builtinPlugins().map((id) => (ids.has(id) ? undefined : loadPlugin(id, file).catch(() => undefined))))
  return [...own, ...others.flatMap((plugin) => (plugin === undefined ? [] : overridesOf(plugin).filter(({ needsSection }) => needsSection)))]
}

function overridesWithoutSection(known: readonly Override[], tree: Tree, { file, overrides }: ConfigSource): string[] {
  return known.flatMap(({ section, key, needsSection }) => {
    const given = overrides.get(`${section}.${key}`)
    return needsSection === undefined || given === undefined || hasSection(tree, section)
      ? []
      : [`cannot use the environment variable "${given.from}": there is no section [${section}] in ${file}; add it, or unset the variable`]
  })
}

function hasSection(tree: Tree, section: string): boolean {
  return section.split('.').reduce<unknown>((at, name) => (at as Tree | undefined)?.[name], tree) !== undefined
}

/** The list of plugins without names that are not known. */
function whatIsKnown(listed: unknown, unset: ReadonlyMap<string, string>): unknown {
  if (unset.has('plugins')) return []
  return Array.isArray(listed) ? listed.filter((_, i) => !unset.has(`plugins[${i}]`)) : listed
}

async function loadSelected(listed: unknown, source: ConfigSource, problems: string[]): Promise<Plugin[]> {
  if (!Array.isArray(listed) || listed.some((name) => typeof name !== 'string')) {
    problems.push(`cannot use "plugins" in ${source.file}: it must be a list of plugin ids, paths or package names`)
    return []
  }
  const loaded: Plugin[] = []
  for (const name of listed as string[]) {
    try {
      loaded.push(await loadPlugin(name, source.folder))
    } catch (error) {
      problems.push(`${(error as Error).message.split('\n', 1)[0]} (plugins in ${source.file})`)
    }
  }
  return loaded
}

/** Plugins that come with others, once each, and those that come with these. */
async function withIncluded(selected: readonly Plugin[], source: ConfigSource, problems: string[]): Promise<Plugin[]> {
  const all = [...selected]
  const names = new Set(all.map(({ id }) => id))
  for (const { includes = [] } of all) {
    const wanted = includes.filter((name) => !names.has(name))
    for (const name of wanted) names.add(name)
    const loaded = await loadSelected(wanted, source, problems)
    all.push(...loaded.filter(({ id }) => !all.some((other) => other.id === id)))
  }
  return all
}

function withoutDuplicates(plugins: readonly Plugin[], file: string, problems: string[]): Plugin[] {
  const byId = new Map<string, Plugin>()
  for (const plugin of plugins) {
    const other = byId.get(plugin.id)
    if (other === undefined) byId.set(plugin.id, plugin)
    else if (other === plugin) problems.push(`cannot run plugin "${plugin.id}" twice: plugins in ${file} names it more than once; remove one`)
    else problems.push(`cannot run two plugins of the id "${plugin.id}", which plugins in ${file} names; remove one, or give that of your own another id`)
  }
  return [...byId.values()]
}

async function resolveStorage(
  sections: Sections,
  source: ConfigSource,
  given: EngineModule | undefined,
  beside: readonly string[],
  plugins: readonly Plugin[],
  origin: Origin,
  problems: string[],
): Promise<NodeConfig['storage']> {
  const named = sections.peek('database', 'engine') ?? DEFAULT_ENGINE
  let module = given
  if (module === undefined) {
    try {
      module = await loadEngine(String(named), source.folder)
    } catch (error) {
      if (!sections.unset.has('database.engine')) problems.push((error as Error).message.split('\n', 1)[0])
      sections.drop('database')
      return undefined
    }
  }
  const schema = Type.Object({ ...engineSchema.properties, ...(module.configSchema.properties as TProperties) }) as Schema
  let preset: ReadonlySet<string> = new Set()
  const absent = (given: Tree): Tree => {
    const values = module.presets?.(given) ?? {}
    preset = new Set(Object.keys(values).filter((key) => !Object.hasOwn(given, key)))
    return values
  }
  const config = sections.check('database', schema, origin, absent) as Record<string, unknown>
  const lacking = module.lacking?.(config) ?? {}
  const capabilities = new Set<string>([...module.capabilities].filter((one) => !Object.hasOwn(lacking, one)))
  for (const plugin of plugins) {
    for (const needed of plugin.capabilities ?? []) {
      if (!capabilities.has(needed) && !beside.includes(needed))
        problems.push(
          `cannot run plugin "${plugin.id}" on storage engine "${named}": the engine lacks the capability "${needed}"; ${lacking[needed] ?? elsewhere(needed)} or remove the plugin`,
        )
    }
  }
  return { engine: String(named), module, config, capabilities, preset }
}

/** What gives a capability that the engine never has. */
const elsewhere = (needed: Capability): string =>
  `${STATE_CAPABILITIES.includes(needed) ? 'add a section [state], such as with engine = "postgres", ' : ''}use another engine`

async function resolveState(sections: Sections, source: ConfigSource, origin: Origin, problems: string[]): Promise<StateConfig | undefined> {
  if (!sections.has('state')) return undefined
  const engine = String(sections.peek('state', 'engine') ?? OWN_STATE)
  if (engine === OWN_STATE) {
    sections.check('state', stateSchema as Schema, origin)
    return undefined
  }
  try {
    const module = await loadState(engine, source.folder)
    const schema = Type.Object({ ...stateSchema.properties, ...(module.configSchema.properties as TProperties) }) as Schema
    return { engine, module, config: sections.check('state', schema, origin) as Record<string, unknown> }
  } catch (error) {
    if (!sections.unset.has('state.engine')) problems.push((error as Error).message.split('\n', 1)[0])
    sections.drop('state')
    return undefined
  }
}

/** Where the engine keeps its files, absolute; undefined for one that keeps none here. */
export function dataDirOf({ storage }: NodeConfig): string | undefined {
  const directory = storage?.config.data_dir
  return typeof directory === 'string' ? resolve(directory) : undefined
}

/** Those that can be loaded: of the others it is said where they are selected. */
async function loadBuiltins(): Promise<Plugin[]> {
  const loaded = await Promise.allSettled(builtinPlugins().map((id) => loadPlugin(id, process.cwd())))
  return loaded.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
}
