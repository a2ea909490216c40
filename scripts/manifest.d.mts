type Manifest = Record<string, unknown>
export function compiledExports(exports: Record<string, string>, base: string): Manifest
export function published(source: Manifest): Manifest
export function publish(): void
export function restore(): boolean
