// How packages are read from what a person types.

/**
 * A requirement (PEP 508): name[extras], versions or a URL, and a condition to the line's end. The
 * package index that it comes from may follow, as the server notes it.
 */
const REQUIREMENT =
  /[a-z0-9](?:[-._a-z0-9]*[a-z0-9])?(?:\s*\[[^\]\n]*\])?(?:[^\S\n]*@[^\S\n]*\S+|[^\S\n]*(?:[=~!]=|===|[<>]=?)[^\S\n]*[^\s,;<>=!~]+(?:\s*,\s*(?:[=~!]=|===|[<>]=?)[^\S\n]*[^\s,;<>=!~]+)*)?(?:[^\S\n]*;[^\n]*)?(?:[^\S\n]+# --index-url[^\S\n]+\S+)?(?=[\s,]|$)/iy;

/** Package requirements, separated by commas, spaces or line breaks. Other comments are left out. */
export function packagesIn(text: string): string[] {
  const requirements: string[] = [];
  const rest = text.replace(/(^|\s)#(?! --index-url\s).*/g, '$1');
  for (let at = 0; at < rest.length;) {
    REQUIREMENT.lastIndex = at;
    // Anything else is for the server to judge, such as the URL of a wheel.
    const [part] =
      REQUIREMENT.exec(rest) ??
      /^(?:[\s,]+|\S*:\/\/\S+|[^\s,]+)/.exec(rest.slice(at))!;
    const one = part.replace(/^[\s,]+|[\s,]+$/g, '');
    if (one) {
      requirements.push(one);
    }
    at += part.length;
  }
  return requirements;
}

/** How package requirements are typed. */
export const PACKAGES = {
  text: (packages: readonly string[]) => packages.join('\n'),
  value: packagesIn
};
