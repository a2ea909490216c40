/** Own modules are found where Node.js finds them: all imports of the repository, both ways. */
import { readdirSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { ownModules } from '../../kernel/lib/modules/own-modules.ts'
import { importsOf } from '../../scripts/modules.ts'
import { filesBelow, ROOT, read } from '../support/tree.ts'

const ASKED = 'asked:'
let parent = ''
let found: { url: string; format?: string | null | undefined } | undefined
// The way of Node.js itself, for any module that asks.
registerHooks({
  resolve: (specifier, context, next) => {
    if (!specifier.startsWith(ASKED)) return next(specifier, context)
    found = next(specifier.slice(ASKED.length), { ...context, parentURL: parent })
    return found
  },
})

function byNode(specifier: string, parentURL: string): typeof found {
  parent = parentURL
  found = undefined
  try {
    import.meta.resolve(ASKED + specifier)
  } catch {
    return undefined
  }
  return found
}

const urlOf = (file: string): string => pathToFileURL(join(ROOT, file)).href
const FOLDERS = ['kernel', 'plugins', 'storage']
const sources = FOLDERS.flatMap((folder) => filesBelow(folder, /\.(ts|mjs)$/))
const find = ownModules()

t.test('each import is found where Node.js finds it, or left to it', async (t) => {
  let own = 0
  const wrong: string[] = []
  for (const file of sources) {
    for (const specifier of new Set(importsOf(read(file)))) {
      const url = find(specifier, urlOf(file))
      if (url === undefined) continue
      own++
      const node = byNode(specifier, urlOf(file))
      if (node === undefined) continue // tests name modules that are not there
      if (node.url !== url || node.format !== 'module-typescript') wrong.push(`${file}: ${specifier}: ${url}, Node.js: ${node.url} (${node.format})`)
    }
  }
  t.same(wrong, [])
  t.ok(own > 5000, `${own} imports`)
})

t.test('of links, none is taken for a module', async (t) => {
  const links = FOLDERS.flatMap((folder) => readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })).filter((entry) => entry.isSymbolicLink())
  t.ok(links.length > 0)
  for (const { name, parentPath } of links) t.equal(find(`./${name}`, pathToFileURL(join(parentPath, 'other.ts')).href), undefined, `${parentPath}/${name}`)
})

t.test('what is not own is left to Node.js', async (t) => {
  const inside = urlOf('plugins/sql/index.ts')
  t.equal(find('svcdb/lib/errors', inside), urlOf('kernel/lib/errors/index.ts'))
  for (const [specifier, from] of [
    ['fastify', inside],
    ['svcdb-of-others', inside],
    ['svcdb/lib/errors/other', inside],
    ['svcdb/nothing', inside],
    ['./answer.js', inside],
    ['./answer.ts?fresh', inside],
    ['../../kernel/main.ts', inside],
    ['./compile-cache.ts', urlOf('kernel/cli/cli.ts')],
    ['./index.ts', urlOf('node_modules/some/kernel/x.ts')],
    ['./index.ts', 'file:///elsewhere/plugins/sql/x.ts'],
    ['svcdb/lib/errors', 'file:///elsewhere/plugins/sql/x.ts'],
    [inside, undefined],
  ] as const)
    t.equal(find(specifier, from), undefined, `${specifier}, by ${from}`)
})
