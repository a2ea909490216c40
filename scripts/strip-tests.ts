/**
 * Strips the types of test files, all in one process: what strips them takes a tenth of a second of processor time to load, which in a fresh clone each file
 * would pay for itself. What it has stripped is in the cache of compiled code (NODE_COMPILE_CACHE) when it ends.
 *
 *   node scripts/strip-tests.ts <file ...>
 *
 * No test runs: a module that throws is evaluated before each. Nor is loaded what they import, in whose place is that module as well: the cache keeps a
 * module's functions that ran before it was first written, so that it is best written by who runs them.
 */
import { registerHooks } from 'node:module'
import { pathToFileURL } from 'node:url'

const END = 'data:text/javascript,throw undefined'
const files = new Set(process.argv.slice(2).map((file) => pathToFileURL(file).href))
registerHooks({
  resolve: (specifier, context, next) =>
    context.parentURL !== undefined && files.has(context.parentURL) ? { url: END, format: 'module', shortCircuit: true } : next(specifier, context),
})
for (const file of files) {
  const code = `import ${JSON.stringify(END)}; import ${JSON.stringify(file)}`
  // It always fails, after it was stripped.
  await import(`data:text/javascript,${encodeURIComponent(code)}`).catch(() => {})
}
