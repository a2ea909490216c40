/** The tables of a config file: each is taken out by its owner, and what nobody owns is refused, saying whose it would be. */
import { resolve } from 'node:path'
import { Type } from '../lib/schema/index.ts'
import { didYouMean } from '../lib/text/index.ts'
import { BUILTIN_ENGINES, builtinPlugins, loadPlugin } from '../loader.ts'
import type { Plugin } from '../plugin.ts'
import type { ConfigSource, Tree } from './config.ts'
import { withPaths } from './file-path.ts'
import { aliasesOf } from './names.ts'
import { checkSection, fromText, type Origin, type Schema } from './section.ts'

/** A place of the file that a plugin's schema describes. */
export interface Mount {
  section: string
  schema: Schema
  keys: readonly string[]
  /** With `section: ''`: the member of the plugin's config that the place is. */
  member?: string
}

type Claim = Pick<Mount, 'section' | 'keys'>

export function mountsOf(plugin: Plugin): Mount[] {
  const schema = (plugin.config ?? Type.Object({})) as Schema
  const keysOf = ({ properties }: Schema) => Object.keys(properties ?? {})
  if (plugin.section !== '') return [{ section: plugin.section ?? plugin.id, schema, keys: keysOf(schema) }]
  return Object.entries(schema.properties ?? {}).map(([member, at]) => ({ section: member, schema: at, keys: keysOf(at), member }))
}

export class Sections {
  private readonly tree: Tree
  private readonly source: ConfigSource
  readonly unset: ReadonlySet<string>
  private readonly problems: string[]
  private readonly owned = new Set<string>()
  /** Keys of the sections that several owners share, by section. */
  private readonly shared = new Map<string, Set<string>>()
  /** Tables within a section that its schema does not know, and what to say of those that nobody owns. */
  private readonly unknownTables = new Map<string, string>()

  /** @param unset keys whose values are not known. */
  constructor(tree: Tree, source: ConfigSource, unset: ReadonlySet<string>, problems: string[]) {
    this.tree = tree
    this.source = source
    this.unset = unset
    this.problems = problems
  }

  has(section: string): boolean {
    return section in this.tree || [...this.source.overrides.keys()].some((key) => key.startsWith(`${section}.`))
  }

  owns(section: string): boolean {
    return this.owned.has(section)
  }

  peek(section: string, key: string): unknown {
    return this.source.overrides.get(`${section}.${key}`)?.text ?? (this.tree[section] as Tree | undefined)?.[key]
  }

  /** Declares a section whose keys have several owners: each takes its own, and what is left is refused at the end. */
  share(section: string, keys: Iterable<string>): void {
    const known = this.shared.get(section) ?? new Set()
    for (const key of keys) known.add(key)
    this.shared.set(section, known)
  }

  /** The keys by which a mount is told from others: its own in a section that is shared, or its name in a shared section around it. */
  claimOf({ section, keys, member }: Mount): Claim | undefined {
    if (member !== undefined || this.shared.has(section)) return { section, keys }
    const dot = section.lastIndexOf('.')
    const around = section.slice(0, Math.max(dot, 0))
    return this.shared.has(around) ? { section: around, keys: [section.slice(dot + 1)] } : undefined
  }

  /** The key that another owner of a shared section has declared too, if any. */
  taken({ section, keys }: Claim): string | undefined {
    return keys.find((key) => this.shared.get(section)?.has(key))
  }

  /** @param absent gives values for keys that neither the file nor an override has. */
  check(section: string, schema: Schema, origin: Origin, absent?: (given: Tree) => Tree): unknown {
    this.owned.add(section)
    const raw = this.shared.has(section) ? this.takeKeys(section, schema) : (this.take(section) ?? (schema.type === 'array' ? [] : {}))
    if (typeof raw === 'object' && !Array.isArray(raw)) {
      for (const [key, { text }] of this.source.overrides) {
        if (!key.startsWith(`${section}.`)) continue
        const path = key.slice(section.length + 1).split('.')
        if (!this.shared.has(section) || Object.hasOwn(schema.properties ?? {}, path[0])) put(raw as Tree, schema, path, text)
      }
    }
    if (typeof raw === 'object' && !Array.isArray(raw)) this.setAside(section, schema, raw as Tree)
    const whole = absent === undefined || Array.isArray(raw) || typeof raw !== 'object' ? raw : { ...absent(raw as Tree), ...raw }
    const checked = checkSection(schema, whole, section, origin, this.problems, this.unset)
    const { overrides, folder } = this.source
    return withPaths(schema, checked, section, (path, key) => {
      if (path.includes('\0')) this.problems.push(`cannot use "${key}" ${JSON.stringify(path)} in ${origin(key)}: no path has a NUL character; leave it out`)
      return resolve(overrides.has(key) ? process.cwd() : folder, path)
    })
  }

  /** They may be sections of others, which refuseRest knows. */
  private setAside(section: string, schema: Schema, raw: Tree): void {
    const { properties, patternProperties, additionalProperties = false } = schema
    if (properties === undefined || patternProperties !== undefined || additionalProperties !== false) return
    const names = Object.keys(properties)
    for (const [name, value] of Object.entries(raw)) {
      if (names.includes(name) || typeof value !== 'object' || value === null || Array.isArray(value)) continue
      this.unknownTables.set(`${section}.${name}`, didYouMean(name, names, `the keys of [${section}] are ${names.join(', ')}`))
      delete raw[name]
    }
  }

  drop(section: string): void {
    this.take(section)
    this.owned.add(section)
  }

  /** The members of a shared section that a schema names; a section that is no table goes to whoever comes first, to be refused. */
  private takeKeys(section: string, schema: Schema): unknown {
    const given = this.tree[section]
    if (given === undefined) return {}
    if (typeof given !== 'object' || given === null || Array.isArray(given)) {
      delete this.tree[section]
      return given
    }
    const own: Tree = {}
    for (const key of Object.keys(schema.properties ?? {})) {
      if (Object.hasOwn(given, key)) own[key] = (given as Tree)[key]
      delete (given as Tree)[key]
    }
    if (Object.keys(given).length === 0) delete this.tree[section]
    return own
  }

  /** Removes a section, dotted or not, from the tree; a parent that becomes empty and has no owner goes too. */
  private take(section: string): unknown {
    const path = section.split('.')
    const parents: Tree[] = [this.tree]
    for (const name of path.slice(0, -1)) {
      const next = parents.at(-1)?.[name]
      if (typeof next !== 'object' || next === null) return undefined
      parents.push(next as Tree)
    }
    const name = path.at(-1) as string
    const value = parents.at(-1)?.[name]
    delete parents.at(-1)?.[name]
    for (let i = parents.length - 1; i > 0 && Object.keys(parents[i]).length === 0; i--) delete parents[i - 1][path[i - 1]]
    return value
  }

  /** @param complete false: a plugin could not be loaded, and what belongs to it is not known. */
  async refuseRest(databaseUsed: boolean, complete: boolean): Promise<void> {
    if (Object.keys(this.tree).length === 0 && this.unknownTables.size === 0) return
    const { owners, places } = await sectionOwners()
    this.refuseUnknownTables(owners)
    const known = ['plugins', ...this.owned]
    for (const [name, value] of Object.entries(this.tree)) {
      if (name === 'database' && !databaseUsed) {
        if (!complete) continue
        this.problems.push(
          `cannot use section "[database]" in ${this.source.file}: no selected plugin uses a storage; remove the section or add a plugin that does`,
        )
        continue
      }
      const keys = this.shared.get(name)
      if (keys !== undefined) {
        this.refuseKeys(name, value as Tree, keys, owners)
        continue
      }
      const table = typeof value === 'object' && value !== null
      const path = table && !Array.isArray(value) ? deepest(name, value as Tree, owners) : name
      const owner = owners.get(path)
      const otherwise = complete ? `the sections are ${known.join(', ')}` : ''
      const hint = owner === undefined ? (placesText(path, places) ?? didYouMean(path, known, otherwise)) : ownedText(owner, 'section')
      if (hint === '') continue
      this.problems.push(
        `cannot use ${table ? `section "[${path}]"` : `key "${path}"`} in ${this.source.file}: ${owner === undefined ? 'there is no such name; ' : ''}${hint}`,
      )
    }
  }

  private refuseUnknownTables(owners: Map<string, string>): void {
    for (const [path, otherwise] of this.unknownTables) {
      const owner = owners.get(path)
      const engine = BUILTIN_ENGINES.find((name) => path === `database.${name}`)
      const [what, why] =
        owner !== undefined
          ? [`section "[${path}]"`, ownedText(owner, 'section')]
          : engine !== undefined
            ? [
                `section "[${path}]"`,
                `it is of the storage engine "${engine}", which is not selected; set engine = "${engine}" in [database] or remove the section`,
              ]
            : [`"${path}"`, `there is no such key; ${otherwise}`]
      this.problems.push(`cannot use ${what} in ${this.source.file}: ${why}`)
    }
  }

  private refuseKeys(section: string, left: Tree, keys: ReadonlySet<string>, owners: Map<string, string>): void {
    for (const [key, value] of Object.entries(left)) {
      const owner = owners.get(`${section}.${key}`)
      const table = typeof value === 'object' && value !== null && !Array.isArray(value)
      const what = table ? `section "[${section}.${key}]"` : `"${section}.${key}"`
      const why =
        owner === undefined
          ? `there is no such key; ${didYouMean(key, [...keys], `the keys of [${section}] are ${[...keys].join(', ')}`)}`
          : ownedText(owner, table ? 'section' : 'key')
      this.problems.push(`cannot use ${what} in ${this.source.file}: ${why}`)
    }
  }
}

/** Sets a member; of a table within, only where the table is there. */
function put(tree: Tree, schema: Schema | undefined, [name, ...below]: readonly string[], text: string): void {
  const member = schema?.properties?.[name]
  if (below.length === 0) tree[name] = fromText(member, text)
  else if (typeof tree[name] === 'object' && tree[name] !== null) put(tree[name] as Tree, member, below, text)
}

function ownedText(owner: string, what: string): string {
  return `it belongs to plugin "${owner}", which is not selected; add "${owner}" to plugins or remove the ${what}`
}

/** For the id of a plugin that has no section of that name. */
function placesText(name: string, places: ReadonlyMap<string, readonly string[]>): string | undefined {
  const keys = places.get(name)
  return keys === undefined ? undefined : `plugin "${name}" has ${keys.length === 0 ? 'no keys' : `the keys ${keys.join(', ')}`}`
}

/** `a.b` for a left-over [a] that nobody owns, and that holds the section of a plugin. */
function deepest(name: string, value: Tree, owners: Map<string, string>): string {
  if (owners.has(name)) return name
  for (const key of Object.keys(value)) if (owners.has(`${name}.${key}`)) return `${name}.${key}`
  return name
}

/** Which built-in plugin owns which section, and the keys that each has. */
async function sectionOwners(): Promise<{ owners: Map<string, string>; places: Map<string, string[]> }> {
  const owners = new Map<string, string>()
  const places = new Map<string, string[]>()
  for (const id of builtinPlugins()) {
    try {
      const mounts = mountsOf(await loadPlugin(id, process.cwd()))
      places.set(
        id,
        mounts.flatMap(({ section, keys }) => keys.map((key) => `${section}.${key}`)),
      )
      for (const { section, schema, keys } of mounts) {
        owners.set(section, id)
        for (const key of keys) owners.set(`${section}.${key}`, id)
        for (const { alias } of aliasesOf({ section, schema })) owners.set(alias, id)
      }
    } catch {
      owners.set(id, id) // it fails when selected; here only its name matters
    }
  }
  return { owners, places }
}
