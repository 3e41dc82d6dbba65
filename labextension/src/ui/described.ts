// How commands describe their arguments.

/** The type and the meaning of each argument. */
export function describe(
  properties: { [name: string]: [type: string, description: string] },
  ...required: string[]
) {
  const described = Object.entries(properties).map(
    ([name, [type, description]]) => [name, { type, description }] as const
  );
  return {
    args: {
      type: 'object',
      required,
      properties: Object.fromEntries(described)
    }
  };
}

/** How a command that takes no arguments describes them. */
export const NO_ARGUMENTS = describe({});
