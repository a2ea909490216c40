import t from 'tap'
import { namesOf, statementsOf } from './api-report.ts'

const FILES: Record<string, string> = {
  'lib/index.d.ts': `/** The library. */\nexport { first, type Shape as Form } from './first.ts';\nexport type * from './types.ts';\nimport { x } from 'y';\nexport declare const LIMIT = 3;\n`,
  'lib/first.d.ts': `/** Adds up. Then more. @throws Error */
export declare function first(a: number): number;
export declare function first(a: string): string;
/**
 * A shape, e.g. "a; b {": of
 * two lines. And more.
 * @experimental
 */
export interface Shape {
    /** Comment; with { signs. */
    sides: number;
    inner: {
        text: '};';
    };
}
declare const hidden: unique symbol;
export declare class Unlisted {
    private readonly secret;
}
`,
  'lib/types.d.ts': `export type A = 'a' | ';';\nexport declare class B {\n    private readonly secret;\n    open(): void;\n}\n`,
}

t.test('each exported name, with its declaration, first sentence and mark', async (t) => {
  t.same(
    namesOf('lib/index.d.ts', '@public', (file) => FILES[file]).map(({ name, mark, summary, declaration }) => [name, mark, summary, declaration]),
    [
      ['A', '@public', '', `type A = 'a' | ';'`],
      ['B', '@public', '', 'class B {\n  open(): void;\n}'],
      ['Form', '@experimental', 'A shape, e.g. "a; b {": of two lines.', `interface Shape {\n  sides: number;\n  inner: {\n    text: '};';\n  };\n}`],
      ['LIMIT', '@public', '', 'const LIMIT = 3'],
      ['first', '@public', 'Adds up.', 'function first(a: number): number\nfunction first(a: string): string'],
    ],
  )
  t.equal(statementsOf(FILES['lib/first.d.ts']).length, 5)
})

t.test('a name that is not declared is an error, and not left out', async (t) => {
  const files: Record<string, string> = { 'a.d.ts': `export { gone } from './b.ts';\n`, 'b.d.ts': 'export declare const here = 1;\n' }
  t.throws(() => namesOf('a.d.ts', '@public', (file) => files[file]), /cannot report "gone" of a\.d\.ts/)
})
