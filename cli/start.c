/* start.c - the program `kerf`: the command in one process. */
#include "cli.h"

struct company company;
int main(int argc, char **argv)
{
    kerf_error err = {0};
    begin_command();
    return finish_command(argc, argv, run_command(argc, argv, &err), &err);
}
