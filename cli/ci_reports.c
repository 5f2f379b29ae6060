/* ci_reports.c - reports for the programs that run kerf: into files, into GitHub's summary of a
 * step, and as lines that its runner reads. */
#include "ci_reports.h"

#include <errno.h>
#include <kerf/eval.h>
#include <kerf/verify.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "terminal.h"

const option option_summary = {"summary", 0, NULL,
                               "append the same to the file that GITHUB_STEP_SUMMARY names"};
const option option_annotations = {"annotations", 0, NULL,
                                   "an ::error line for each fault, as GitHub Actions shows them"};

static const struct {
    const char *name;
    int kind;
} reports[] = {{"junit", KERF_VERIFY_JUNIT},
               {"markdown", KERF_VERIFY_MARKDOWN},
               {"summary", KERF_VERIFY_MARKDOWN},
               {"annotations", KERF_VERIFY_ANNOTATIONS}};
_Static_assert((int)KERF_VERIFY_JUNIT == (int)KERF_EVAL_JUNIT &&
                   (int)KERF_VERIFY_MARKDOWN == (int)KERF_EVAL_MARKDOWN &&
                   (int)KERF_VERIFY_ANNOTATIONS == (int)KERF_EVAL_ANNOTATIONS,
               "kinds of reports number alike");

kerf_status ci_reports_check(const args *a, kerf_error *err)
{
    static const char *const xml[] = {".xml", NULL}, *const markdown[] = {".md", NULL};
    TRY(args_suffix(a, "junit", xml, 0, err));
    TRY(args_suffix(a, "markdown", markdown, 0, err));
    if (!args_has(a, "summary") || summary_path()) return KERF_OK;
    return USAGE(err, "--summary: GITHUB_STEP_SUMMARY is not set; --markdown FILE writes the same");
}

kerf_status ci_reports_write(const args *a, ci_report *report, const void *result, kerf_error *err)
{
    for (size_t i = 0; i < sizeof reports / sizeof *reports; i++) {
        const char *name = reports[i].name, *path = args_value(a, name);
        char *text = NULL;
        size_t n;
        if (!args_has(a, name)) continue;
        TRY(report(result, reports[i].kind, &text, &n, err));
        kerf_status s = KERF_OK;
        if (path)
            s = write_file(path, text, n, args_has(a, "overwrite"), err);
        else if (strcmp(name, "summary") == 0)
            s = append_summary(text, err);
        else if (fputs(text, args_has(a, "json") ? stderr : stdout) == EOF)
            s = kerf_fail(err, KERF_E_IO, "standard output: %s", strerror(errno));
        free(text);
        TRY(s);
    }
    return KERF_OK;
}
