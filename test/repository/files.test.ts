/** Names, sizes and contents of the files. */
import { existsSync } from 'node:fs'
import { join, posix } from 'node:path'
import { builtinPlugins } from 'svcdb/testkit'
import t from 'tap'
import { headings, localLinks } from '../support/markdown.ts'
import { filesBelow, foldersIn, ROOT, read } from '../support/tree.ts'

const MAX_LINES = 500
const CODE = /\.(ts|mjs)$/
const code = filesBelow('.', CODE)
const documents = filesBelow('.', /\.md$/)

t.test('no code file has more than 500 lines', async (t) => {
  t.same(
    code.map((file) => `${file}: ${read(file).split('\n').length - 1}`).filter((line) => Number(line.split(': ')[1]) > MAX_LINES),
    [],
  )
})

t.test('nothing is left to be done in comments', async (t) => {
  // In two parts each, so that this file does not find itself.
  const marks = new RegExp(`\\b(${['TO-DO', 'FIX-ME', 'XX-X', 'HA-CK'].map((word) => word.replace('-', '')).join('|')})\\b`)
  t.same(
    [...code, ...documents, ...filesBelow('.', /\.(toml|json)$/)].filter((file) => !file.endsWith('package-lock.json') && marks.test(read(file))),
    [],
  )
})

t.test('folders of tests outlive the nodes in them', async (t) => {
  // Of tap's own, unlike of temporaryFolder, the removal comes before what tests tear down, such as nodes that still write.
  const tests = code.filter((file) => file.endsWith('.test.ts') && !file.startsWith('kernel/lib/'))
  t.same(
    tests.filter((file) => read(file).includes('t.testdir'.concat('('))),
    [],
  )
})

t.test('files are named in kebab-case, plugin folders in snake_case', async (t) => {
  const ids = new Set(builtinPlugins())
  const wrong = code.filter((file) => {
    const [name, ...kinds] = posix.basename(file).replace(CODE, '').split('.')
    const folder = posix.dirname(file).split('/')
    // A plugin's test has the plugin's id.
    const named = /^[a-z0-9]+(-[a-z0-9]+)*$/.test(name) || (ids.has(name) && folder.includes('plugins'))
    return !named || kinds.some((kind) => !['test', 'bench', 'fuzz'].includes(kind))
  })
  t.same(wrong, [])
  t.same(
    filesBelow('.', /\.(ts|mjs|md|toml)$/)
      .map((file) => posix.dirname(file))
      .filter((folder) => !folder.startsWith('plugins/') && folder !== '.' && folder !== '.ci' && !/^[a-z0-9]+([-/][a-z0-9]+)*$/.test(folder)),
    [],
  )
})

t.test('folders of plugins/ have the same files', async (t) => {
  t.same(foldersIn('plugins'), builtinPlugins(), 'each folder is a plugin')
  for (const id of foldersIn('plugins')) {
    const files = filesBelow(`plugins/${id}`).map((file) => file.slice(`plugins/${id}/`.length))
    for (const name of ['README.md', 'index.ts', 'config.ts', `${id}.test.ts`]) t.ok(files.includes(name), `${id}/${name}`)
    const fixed = /^(README\.md|index\.ts|config\.ts|handler\.ts|metrics\.ts|.*\.(test|bench|fuzz)\.ts|testcases\/.*)$/
    t.ok(
      files.some((name) => CODE.test(name) && !fixed.test(name)),
      `${id} has a module of logic`,
    )
    const wiring = read(`plugins/${id}/index.ts`)
    t.notMatch(wiring, /^(let|var) /m, `${id}/index.ts keeps no state`)
  }
})

t.test("a plugin's README has the sections in order", async (t) => {
  const expected = ['Description', 'Configuration', 'Limits', 'Metrics', 'Errors', 'Examples', 'See also']
  for (const id of foldersIn('plugins')) {
    const file = `plugins/${id}/README.md`
    if (!existsSync(join(ROOT, file))) continue // reported above
    t.same(headings(read(file)), expected, id)
    t.equal(read(file).split('\n', 1)[0], `# ${id}`)
  }
})

t.test('links between documents lead somewhere', async (t) => {
  const broken = documents.flatMap((file) =>
    localLinks(read(file))
      .filter((target) => !existsSync(join(ROOT, posix.dirname(file), target)))
      .map((target) => `${file}: ${target}`),
  )
  t.same(broken, [])
})

t.test('a link that names a decision by its number leads to that one', async (t) => {
  const links = documents.flatMap((file) =>
    [...read(file).matchAll(/\[[^\]]*?\b(\d{3})\]\(\S*?\b(\d{3})-[\w-]+\.md\)/g)].map(([text, named, meant]) => ({ name: `${file}: ${text}`, named, meant })),
  )
  t.ok(links.length > 20)
  t.same(
    links.filter(({ named, meant }) => named !== meant).map(({ name }) => name),
    [],
  )
})

t.test('files that comments and READMEs name are there', async (t) => {
  const names = new Set(code.map((file) => posix.basename(file)))
  const comments = (file: string): string[] => [...read(file).matchAll(/^\s*(?:\/\*\*?|\*|\/\/)(?<text>.*)$/gm)].map(({ groups }) => groups?.text ?? '')
  const texts = [
    ...code.map((file) => ({ file, text: comments(file).join('\n') })),
    ...documents.filter((file) => /^(kernel|plugins|storage)\/.*README\.md$/.test(file)).map((file) => ({ file, text: read(file) })),
  ]
  const gone = texts.flatMap(({ file, text }) =>
    [...text.matchAll(/[\w./-]*\w\.(?:ts|mjs)\b/g)]
      .map(([name]) => name)
      // Declarations are made by the build; links are no files to those who list them.
      .filter((name) => !name.endsWith('.d.ts') && !names.has(posix.basename(name)) && !existsSync(join(ROOT, posix.dirname(file), name)))
      .map((name) => `${file}: ${name}`),
  )
  t.same(gone, [])
})

t.test('a README in an engine names the files and folders beside it, and no others', async (t) => {
  const readmes = documents.filter((file) => /^storage\/.*README\.md$/.test(file))
  t.ok(readmes.length > 4)
  for (const file of readmes) {
    const folder = posix.dirname(file)
    const below = filesBelow(folder, CODE).map((name) => posix.relative(folder, name))
    const modules = below.filter((name) => !name.includes('/') && !/\.(test|bench|fuzz)\.ts$/.test(name))
    const folders = [...new Set(below.filter((name) => name.includes('/')).map((name) => `${name.split('/')[0]}/`))]
    const named = [...read(file).matchAll(/`([\w./-]+(?:\.ts|\/))`/g)].map(([, name]) => name)
    t.same(
      [...modules, ...folders].filter((name) => !named.some((other) => other === name || (name.endsWith('/') && other.startsWith(name)))),
      [],
      `what ${file} leaves out`,
    )
    t.same(
      named.filter((name) => !existsSync(join(ROOT, folder, name))),
      [],
      `what ${file} names and is not there`,
    )
  }
})

t.test('package.json', async (t) => {
  const manifest = JSON.parse(read('package.json'))
  t.equal(manifest.name, 'svcdb')
  t.equal(manifest.type, 'module')
  t.equal(manifest.license, 'Apache-2.0')
  t.match(read('LICENSE'), /Apache License\s+Version 2\.0[\s\S]*END OF TERMS AND CONDITIONS/)
  t.match(manifest.optionalDependencies.node, /^24\.\d+\.\d+$/, 'the runtime is pinned')
  t.equal(manifest.scripts.prestart, manifest.scripts.pretest, 'both commands do their own set-up')
  for (const target of [manifest.bin.svc, ...Object.values(manifest.exports as Record<string, string>)])
    t.ok(existsSync(join(ROOT, target.replace('/*/', '/errors/'))), target)
  for (const [name, command] of Object.entries(manifest.scripts as Record<string, string>)) {
    for (const [file] of command.matchAll(/[\w./-]+\.(?:ts|mjs|toml)\b/g)) t.ok(existsSync(join(ROOT, file)), `${name}: ${file}`)
  }
  t.match(read('CHANGELOG.md'), /^## Unreleased$/m)
})
