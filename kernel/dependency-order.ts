/** The order in which plugins start: dependencies first, else as listed. Pure. */
import { didYouMean } from './lib/text/index.ts'
import type { Plugin } from './plugin.ts'

/**
 * @param off plugins that are named, and do not run as their section is not there.
 * @param others plugins that could be named besides.
 */
export function startOrder(plugins: readonly Plugin[], problems: string[], off: readonly Plugin[] = [], others: readonly Plugin[] = []): Plugin[] {
  const providers = new Map<string, Plugin>()
  for (const plugin of plugins) {
    for (const name of [plugin.id, ...(plugin.provides ?? [])]) {
      const other = providers.get(name)
      if (other !== undefined && other !== plugin)
        problems.push(`cannot run plugin "${plugin.id}": "${name}" is provided by plugin "${other.id}" already; select one of them`)
      else providers.set(name, plugin)
    }
  }
  const ordered: Plugin[] = []
  const path: Plugin[] = []
  const visit = (plugin: Plugin): void => {
    if (ordered.includes(plugin)) return
    if (path.includes(plugin)) {
      problems.push(
        `cannot order plugin "${plugin.id}": it requires itself by way of ${[...path.slice(path.indexOf(plugin)), plugin].map((p) => p.id).join(' -> ')}`,
      )
      return
    }
    path.push(plugin)
    for (const name of plugin.includes ?? []) {
      const included = providers.get(name)
      if (included !== undefined) visit(included)
    }
    for (const name of plugin.requires ?? []) {
      const provider = providers.get(name)
      if (provider !== undefined) visit(provider)
      else problems.push(`cannot run plugin "${plugin.id}": it requires "${name}", ${absent(name, providers.keys(), off, others)}`)
    }
    path.pop()
    ordered.push(plugin)
  }
  for (const plugin of plugins) visit(plugin)
  return ordered
}

/** Whether there is a requirement that none of these fulfils. */
export function lacksProvider(plugins: readonly Plugin[]): boolean {
  return plugins.some(({ requires = [] }) => requires.some((name) => !plugins.some((plugin) => fulfils(plugin, name))))
}

const fulfils = ({ id, provides = [] }: Plugin, name: string): boolean => id === name || provides.includes(name)

function absent(name: string, provided: Iterable<string>, off: readonly Plugin[], others: readonly Plugin[]): string {
  const idle = off.find((plugin) => fulfils(plugin, name))
  if (idle !== undefined) return `which plugin "${idle.id}" provides where the file has its section; add [${idle.section ?? idle.id}]`
  const other = others.find((plugin) => fulfils(plugin, name))
  return `which no selected plugin provides; ${other === undefined ? didYouMean(name, provided, 'add the plugin to plugins') : `add "${other.id}" to plugins`}`
}
