/**
 * The URL of a module that is not imported but loaded by its URL: a job, a worker, the program of a process. What `new URL(path, from)` gives, but with the
 * extension that the asking module has itself, so that the same line works from source and compiled.
 *
 * @param path relative to `from`, with the extension of the source: './count-job.ts'.
 * @param from `import.meta.url` of the asking module.
 */
export function moduleUrl(path: string, from: string): URL {
  return new URL(new URL(from).pathname.endsWith('.ts') ? path : path.replace(/\.ts$/, '.js'), from)
}
