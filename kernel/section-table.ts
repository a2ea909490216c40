/** The tables of a config file: each is taken out by its owner, and what nobody owns is refused, saying whose it would be. */
import type { ConfigSource, Tree } from './config.ts'
import { builtinPlugins, loadPlugin } from './loader.ts'
import { didYouMean } from './nearest.ts'
import { checkSection, fromText, type Origin, type Schema } from './section.ts'

export class Sections {
  private readonly tree: Tree
  private readonly source: ConfigSource
  private readonly problems: string[]
  private readonly owned = new Set<string>()

  constructor(tree: Tree, source: ConfigSource, problems: string[]) {
    this.tree = tree
    this.source = source
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

  check(section: string, schema: Schema, origin: Origin): unknown {
    this.owned.add(section)
    const raw = this.take(section) ?? (schema.type === 'array' ? [] : {})
    if (typeof raw === 'object' && !Array.isArray(raw)) {
      for (const [key, { text }] of this.source.overrides) {
        if (key.startsWith(`${section}.`)) {
          const name = key.slice(section.length + 1)
          ;(raw as Tree)[name] = fromText(schema.properties?.[name], text)
        }
      }
    }
    return checkSection(schema, raw, section, origin, this.problems)
  }

  drop(section: string): void {
    this.take(section)
    this.owned.add(section)
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

  async refuseRest(databaseUsed: boolean): Promise<void> {
    if (Object.keys(this.tree).length === 0) return
    const owners = await sectionOwners()
    const known = ['plugins', ...this.owned]
    for (const [name, value] of Object.entries(this.tree)) {
      if (name === 'database' && !databaseUsed) {
        this.problems.push(
          `cannot use section "[database]" in ${this.source.file}: no selected plugin uses a storage; remove the section or add a plugin that does`,
        )
        continue
      }
      const table = typeof value === 'object' && value !== null
      const path = table && !Array.isArray(value) ? deepest(name, value as Tree, owners) : name
      const owner = owners.get(path)
      const hint =
        owner === undefined
          ? didYouMean(path, known, `the sections are ${known.join(', ')}`)
          : `it belongs to plugin "${owner}", which is not selected; add "${owner}" to plugins or remove the section`
      this.problems.push(
        `cannot use ${table ? `section "[${path}]"` : `key "${path}"`} in ${this.source.file}: ${owner === undefined ? 'there is no such name; ' : ''}${hint}`,
      )
    }
  }
}

/** `auth.jwt` for a left-over [auth] that holds only the section of another plugin. */
function deepest(name: string, value: Tree, owners: Map<string, string>): string {
  for (const key of Object.keys(value)) if (owners.has(`${name}.${key}`)) return `${name}.${key}`
  return name
}

/** Which built-in plugin owns which section. */
async function sectionOwners(): Promise<Map<string, string>> {
  const owners = new Map<string, string>()
  for (const id of builtinPlugins()) {
    try {
      owners.set((await loadPlugin(id, process.cwd())).section ?? id, id)
    } catch {
      owners.set(id, id) // it fails when selected; here only its name matters
    }
  }
  return owners
}
